"""The limits of structured tables: section [sds] of the configuration file; see ``limits``."""

from dataclasses import dataclass

from opentalos.model.limits import need


@dataclass(frozen=True, slots=True, kw_only=True)
class SdsLimits:
    """[sds] Limits of structured tables and their streams."""

    tables_max: int = 10_000  # whole server
    user_tables: int = 1_000  # of one owner
    user_quota_bytes: int = 0  # of an owner's tables, each of which needs a quota then; 0: no limit
    shards_max: int = 256  # of one table
    attributes_max: int = 512  # of one table's schema
    indexes_max: int = 16  # of one table
    streams_max: int = 8  # of one table
    schema_bytes_max: int = 64 << 10  # of one table's record
    key_bytes_max: int = 1 << 10  # of a record's full key in its stored form
    record_bytes_max: int = 256 << 10  # of a record's cells in their stored form
    batch_items_max: int = 1_000
    batch_bytes_max: int = 4 << 20  # of records that one batch reads; items beyond it fail
    scan_records_max: int = 1_000  # of one page; a larger limit gives a shorter page
    scan_rows_max: int = 10_000  # read for one page, matching or not
    scan_bytes_max: int = 256 << 10  # of one page's records, unless its first one is larger
    scan_writes_max: int = 1_000  # records that one scan call deletes or updates
    condition_bytes_max: int = 8 << 10  # of a scan's condition
    read_units_per_s: int = 40_000  # default of a table
    write_units_per_s: int = 20_000  # default of a table
    user_read_units_per_s: int = 400_000  # of all tables of one owner, on each server; 0: no limit
    user_write_units_per_s: int = 200_000  # of all tables of one owner, on each server; 0: no limit
    throttle_max_s: float = 3.0  # a call over its table's rate is delayed at most this long
    when_full: str = "refuse"  # or gap: default for a stream whose topic rejects puts for long
    group_rows_max: int = 512  # rows that one shard commits together
    group_bytes_max: int = 4 << 20  # of cells that one shard commits together
    waiting_max: int = 10_000  # mutations of one shard that wait while a group is being written
    pending_entries_max: int = 100_000  # of one shard: not published, or not cleared
    pending_bytes_max: int = 64 << 20  # of one shard
    server_pending_entries_max: int = 500_000  # of all shards of a server, approximately
    server_pending_bytes_max: int = 512 << 20  # of all shards of a server, approximately
    refused_max_s: float = 30.0  # a stream of a table with when_full = gap stops after it
    write_deadline_s: float = 10.0  # of one group's write; its outcome is unknown after it
    settle_s: float = 30.0  # no marks for this long after a shard failed over to another server
    opened_scan_interval_s: float = 5.0  # between scans for pending cells during settle_s
    pending_scan_interval_s: float = 60.0  # between scans for pending cells later
    idle_close_s: float = 600.0  # a shard without streams and calls closes after it
    sweep_interval_s: float = 1.0  # between two steps that remove expired rows and old tombstones
    sweep_rows_max: int = 1_000  # rows that one step reads
    sweep_pause_s: float = 3_600.0  # between two passes over the same table
    tombstone_s: float = 7 * 86_400.0  # a removed row keeps its timestamp for this long

    def __post_init__(self) -> None:
        need(0 < self.shards_max <= 65_536, "need 0 < shards_max <= 65536")
        need(0 < self.key_bytes_max <= 1 << 10, "need key_bytes_max <= 1 KiB")
        need(self.key_bytes_max <= self.record_bytes_max, "need key_bytes_max <= record_bytes_max")
        need(self.record_bytes_max <= 1 << 20, "need record_bytes_max <= 1 MiB")
        need(
            self.record_bytes_max <= self.group_bytes_max,
            "need record_bytes_max <= group_bytes_max",
        )
        need(
            self.record_bytes_max <= self.pending_bytes_max,
            "need record_bytes_max <= pending_bytes_max",
        )
        need(
            self.pending_entries_max <= self.server_pending_entries_max
            and self.pending_bytes_max <= self.server_pending_bytes_max,
            "need pending_entries_max <= server_pending_entries_max and pending_bytes_max <= "
            "server_pending_bytes_max",
        )
        need(
            self.record_bytes_max <= self.batch_bytes_max,
            "need record_bytes_max <= batch_bytes_max",
        )
        counts = (self.batch_items_max, self.scan_records_max, self.scan_rows_max)
        need(min(counts) > 0, "need batch_items_max, scan_records_max, scan_rows_max > 0")
        need(
            min(self.read_units_per_s, self.write_units_per_s) > 0,
            "need read_units_per_s, write_units_per_s > 0",
        )
        need(
            min(self.user_read_units_per_s, self.user_write_units_per_s) >= 0,
            "need user_read_units_per_s, user_write_units_per_s >= 0",
        )
        need(self.user_quota_bytes >= 0, "need user_quota_bytes >= 0")
        need(0 <= self.throttle_max_s <= 4, "need throttle_max_s <= 4: clients time out after 5 s")
        need(self.when_full in ("refuse", "gap"), 'when_full must be "refuse" or "gap"')
        need(0 < self.group_rows_max <= 1_000, "need 0 < group_rows_max <= 1000")
        need(
            min(self.waiting_max, self.pending_entries_max) > 0,
            "need waiting_max, pending_entries_max > 0",
        )
        scans = (self.opened_scan_interval_s, self.pending_scan_interval_s)
        need(
            min(*scans, self.sweep_interval_s) > 0,
            "need opened_scan_interval_s, pending_scan_interval_s, sweep_interval_s > 0",
        )
        need(self.write_deadline_s <= self.settle_s, "need write_deadline_s <= settle_s")
        need(self.tombstone_s >= 86_400, "need tombstone_s >= 86400")
