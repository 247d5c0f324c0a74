//! Exports the rows as Arrow record batches, for programs in the same process. A separate thread reads one batch ahead.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use arrow_array::builder::{BooleanBuilder, Float64Builder, Int64Builder, StringBuilder};
use arrow_array::{ArrayRef, RecordBatch, RecordBatchReader, TimestampMicrosecondArray};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef, TimeUnit};
use gua_store::History;

use crate::batch::{Cells, Values};
use crate::column::{Column, Kind};
use crate::run::{Ask, batches};
use crate::tables::What;

/// Returns the Arrow schema of a table.
#[must_use]
pub fn schema(what: What) -> SchemaRef {
    let field = |column: &Column| Field::new(column.name, data_type(column.kind), true);
    let fields: Vec<Field> = what.columns().iter().map(field).collect();
    Arc::new(Schema::new(fields))
}

/// Returns the rows of `ask`, whose format is ignored. An error is the last item.
pub fn record_batches(
    history: History,
    ask: Ask,
) -> std::io::Result<impl RecordBatchReader + Send + 'static> {
    let schema = schema(ask.what);
    let (sender, batches) = sync_channel(1);
    let fields = Arc::clone(&schema);
    std::thread::Builder::new()
        .name("gua-rows".to_owned())
        .spawn(move || read(&history, &ask, &fields, &sender))?;
    Ok(Rows { schema, batches })
}

struct Rows {
    schema: SchemaRef,
    batches: Receiver<Result<RecordBatch, ArrowError>>,
}

impl Iterator for Rows {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.batches.recv().ok()
    }
}

impl RecordBatchReader for Rows {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}

fn read(
    history: &History,
    ask: &Ask,
    schema: &SchemaRef,
    sender: &SyncSender<Result<RecordBatch, ArrowError>>,
) {
    let columns = ask.what.columns();
    let read = batches(history, ask, &mut |batch| {
        let cells = batch.columns.iter().zip(columns);
        let arrays = cells.map(|(cells, column)| array(cells, column.kind));
        // An error means that the receiver was dropped.
        sender
            .send(RecordBatch::try_new(Arc::clone(schema), arrays.collect()))
            .is_ok()
    });
    if let Err(error) = read {
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

fn array(cells: &Cells, kind: Kind) -> ArrayRef {
    let is_there = cells.levels.iter().map(|level| *level > 0);
    match &cells.values {
        Values::Int(values) => {
            let mut builder = Int64Builder::with_capacity(cells.levels.len());
            spread(is_there, values, |value| {
                builder.append_option(value.copied());
            });
            let numbers = builder.finish();
            match kind {
                Kind::Time => {
                    let times: TimestampMicrosecondArray = numbers.reinterpret_cast();
                    Arc::new(times.with_timezone(ZONE))
                }
                _ => Arc::new(numbers),
            }
        }
        Values::Float(values) => {
            let mut builder = Float64Builder::with_capacity(cells.levels.len());
            spread(is_there, values, |value| {
                builder.append_option(value.copied());
            });
            Arc::new(builder.finish())
        }
        Values::Bool(values) => {
            let mut builder = BooleanBuilder::with_capacity(cells.levels.len());
            spread(is_there, values, |value| {
                builder.append_option(value.copied());
            });
            Arc::new(builder.finish())
        }
        Values::Text(texts) => {
            let mut builder = StringBuilder::new();
            spread(is_there, &texts.places, |place| {
                builder.append_option(place.map(|place| texts.get(*place)));
            });
            Arc::new(builder.finish())
        }
    }
}

/// Returns an option for each row from the existing values.
fn spread<T>(is_there: impl Iterator<Item = bool>, values: &[T], mut each: impl FnMut(Option<&T>)) {
    let mut values = values.iter();
    for is_there in is_there {
        each(is_there.then(|| values.next()).flatten());
    }
}
