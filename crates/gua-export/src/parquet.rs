//! Parquet with typed columns and zstd: one row group per batch.

use std::io::Write;
use std::sync::Arc;

use parquet::basic::{Compression, LogicalType, Repetition, TimeUnit, Type as Physical, ZstdLevel};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;

use crate::batch::{Batch, Values};
use crate::column::{Column, Kind};

/// A file that is being written.
pub(crate) struct Writer<W: Write + Send> {
    file: SerializedFileWriter<W>,
}

impl<W: Write + Send> Writer<W> {
    pub(crate) fn new(out: W, table: &str, columns: &[Column]) -> Result<Self, ParquetError> {
        let fields = columns.iter().map(|column| field(column).map(Arc::new));
        let schema = Type::group_type_builder(table)
            .with_fields(fields.collect::<Result<_, _>>()?)
            .build()?;
        let properties = WriterProperties::builder()
            // The lowest levels of zstd compress columns like these nearly as well, and are several times as fast.
            .set_compression(Compression::ZSTD(ZstdLevel::try_new(1)?))
            .set_statistics_enabled(EnabledStatistics::Chunk)
            .set_created_by("gua".to_owned())
            .build();
        Ok(Self {
            file: SerializedFileWriter::new(out, Arc::new(schema), Arc::new(properties))?,
        })
    }

    /// Writes a batch as a row group.
    pub(crate) fn rows(&mut self, batch: &Batch) -> Result<(), ParquetError> {
        let mut group = self.file.next_row_group()?;
        for cells in &batch.columns {
            let levels = Some(cells.levels.as_slice());
            let mut column = group
                .next_column()?
                .expect("a file has as many columns as its table");
            match &cells.values {
                Values::Time(values) | Values::Int(values) => {
                    let column = column.typed::<Int64Type>();
                    column.write_batch(values, levels, None)?;
                }
                Values::Float(values) => {
                    let column = column.typed::<DoubleType>();
                    column.write_batch(values, levels, None)?;
                }
                Values::Bool(values) => {
                    let column = column.typed::<BoolType>();
                    column.write_batch(values, levels, None)?;
                }
                Values::Text(texts) => {
                    let known = texts.known.iter();
                    let known: Vec<_> = known.map(|text| ByteArray::from(text.as_str())).collect();
                    let values = texts.places.iter();
                    let values: Vec<_> =
                        values.map(|place| known[*place as usize].clone()).collect();
                    let column = column.typed::<ByteArrayType>();
                    column.write_batch(&values, levels, None)?;
                }
            }
            column.close()?;
        }
        group.close()?;
        Ok(())
    }

    pub(crate) fn finish(self) -> Result<W, ParquetError> {
        self.file.into_inner()
    }
}

fn field(column: &Column) -> Result<Type, ParquetError> {
    let (physical, logical) = match column.kind {
        Kind::Time => (
            Physical::INT64,
            Some(LogicalType::timestamp(true, TimeUnit::MICROS)),
        ),
        Kind::Int => (Physical::INT64, None),
        Kind::Float => (Physical::DOUBLE, None),
        Kind::Bool => (Physical::BOOLEAN, None),
        Kind::Text => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
    };
    Type::primitive_type_builder(column.name, physical)
        .with_logical_type(logical)
        .with_repetition(Repetition::OPTIONAL)
        .build()
}
