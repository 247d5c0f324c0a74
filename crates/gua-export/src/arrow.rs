//! Exports the rows as Arrow record batches, for programs in the same process. A separate thread reads one batch ahead.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use arrow_array::{
    ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, RecordBatchReader, StringArray,
    TimestampMicrosecondArray,
};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef, TimeUnit};

use crate::batch::{Cells, Values};
use crate::column::{Column, Kind};
use crate::error::ExportError;
use crate::rows::Rows;
use crate::run::Ask;
use crate::tables::What;

/// Returns the Arrow schema of a table.
pub fn schema(what: What) -> SchemaRef {
    let field = |column: &Column| Field::new(column.name, data_type(column.kind), true);
    let fields: Vec<Field> = what.columns().iter().map(field).collect();
    Arc::new(Schema::new(fields))
}

/// Returns the rows of `ask`, whose format is ignored. An error is the last item.
pub fn record_batches(
    rows: Box<dyn Rows>,
    ask: Ask,
) -> std::io::Result<impl RecordBatchReader + Send + 'static> {
    let schema = schema(ask.what);
    let (sender, batches) = sync_channel(1);
    let fields = Arc::clone(&schema);
    std::thread::Builder::new()
        .name("gua-rows".to_owned())
        .spawn(move || read(rows.as_ref(), &ask, &fields, &sender))?;
    Ok(Batches { schema, batches })
}

struct Batches {
    schema: SchemaRef,
    batches: Receiver<Result<RecordBatch, ArrowError>>,
}

impl Iterator for Batches {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.batches.recv().ok()
    }
}

impl RecordBatchReader for Batches {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}

fn read(
    rows: &dyn Rows,
    ask: &Ask,
    schema: &SchemaRef,
    sender: &SyncSender<Result<RecordBatch, ArrowError>>,
) {
    let read = rows.batches(ask, &mut |_| {}, &mut |_, batch| {
        let arrays = batch.columns.iter().map(array).collect();
        let batch = RecordBatch::try_new(Arc::clone(schema), arrays);
        // An error means that the receiver was dropped.
        sender.send(batch).map_err(|_| ExportError::Stopped)
    });
    if let Err(error) = read
        && !matches!(error, ExportError::Stopped)
    {
        let _ = sender.send(Err(ArrowError::ExternalError(Box::new(error))));
    }
}

fn data_type(kind: Kind) -> DataType {
    match kind {
        Kind::Time => DataType::Timestamp(TimeUnit::Microsecond, Some(ZONE.into())),
        Kind::Int => DataType::Int64,
        Kind::Float => DataType::Float64,
        Kind::Bool => DataType::Boolean,
        Kind::Text => DataType::Utf8,
    }
}

/// Time zone of all times.
const ZONE: &str = "UTC";

fn array(cells: &Cells) -> ArrayRef {
    match &cells.values {
        Values::Time(values) => {
            let times: TimestampMicrosecondArray = spread(cells, values).collect();
            Arc::new(times.with_timezone(ZONE))
        }
        Values::Int(values) => Arc::new(spread(cells, values).collect::<Int64Array>()),
        Values::Float(values) => Arc::new(spread(cells, values).collect::<Float64Array>()),
        Values::Bool(values) => Arc::new(spread(cells, values).collect::<BooleanArray>()),
        Values::Text(texts) => {
            let texts = spread(cells, &texts.places).map(|place| Some(texts.get(place?)));
            Arc::new(texts.collect::<StringArray>())
        }
    }
}

/// Returns an option for each row from the existing values.
fn spread<T: Copy>(cells: &Cells, values: &[T]) -> impl Iterator<Item = Option<T>> {
    let mut values = values.iter().copied();
    let levels = cells.levels.iter();
    levels.map(move |level| if *level > 0 { values.next() } else { None })
}
