// What OpenTalos adds to the definitions of the public clients. Optional fields with ids from 1001
// on: those clients skip them. scripts/generate_thrift.py adds them to the structs of these names.

// Idempotent puts: all three of id, epoch and sequence, or none. See docs/adr/0008.
struct PutMessageRequest {
  1001: optional i64 producerId;        // random, 1 to 2^62 - 1
  1002: optional i32 producerEpoch;     // 0 or more; a larger one fences smaller ones
  1003: optional i64 firstSequence;     // of the first message; counts the producer's messages
  1004: optional bool repeated;         // the same put was sent before and may be stored
}

struct PutMessageResponse {
  1001: optional i64 baseOffset;        // of the first message; absent if it is not known any more
  1002: optional bool storedBefore;     // true: an earlier put with this stamp stored the first block
}

// A scan by key that also tells of each record when it was last changed, and of removed records.
// Lists of the result go with its records; of a removed one the record has the key alone.
struct ScanRequest {
  1001: optional bool withVersions;     // not with an index, a condition or an action
}

struct ScanResult {
  1001: optional list<i64> timestamps;  // ms, of the record's last change
  1002: optional list<i64> sequences;   // the number of that change
  1003: optional list<bool> removed;
}

// Another number after each enabling of the stream: changes between two of them are missing.
struct StreamCheckpoint {
  1001: optional i32 enabling;
}

// alterTable only if the table's schema has this version now; else UNSUPPORTED_VERSION.
struct TableSpec {
  1001: optional i32 expectedVersion;
}

// The producer's trace context, so that what consumes the message can continue the trace.
// Source: W3C Trace Context, header traceparent. See docs/adr/0058.
struct Message {
  1001: optional string traceparent;
}

// Leave the group: releases the worker's lease and all its partitions, also unlisted ones.
struct UnlockPartitionRequest {
  1001: optional bool leaveGroup;
}

// Answer when the reply differs from the one with the known mark, or after the time, at most 3 s.
struct QueryWorkerRequest {
  1001: optional i32 waitMillis;
  1002: optional i64 knownMark;         // absent: answer at once, as if the call was forwarded
}

struct QueryWorkerResponse {
  1001: optional i64 mark;              // of these workers and partitions; absent: do not wait now
}
