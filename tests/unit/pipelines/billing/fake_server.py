"""A server for reconciliation: it has logs, and nothing else."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

from opentalos.model.errors import TopicNotExist
from opentalos.pipelines.metering.usage_lake import MinuteUse

PAGE_RECORDS = 4  # a page of the fake ends after so many, also within a minute


class FakeServer:
    """Answers as REST does; logs are chains of minutes by topic, for each partition."""

    def __init__(self, logs: dict[str, list[list[MinuteUse]]]) -> None:
        self.logs = logs
        self.gone: set[str] = set()  # deleted after they were listed
        self.pages = 0

    def __call__(self, method: str, path: str, *, query: Mapping[str, object] | None = None) -> Any:
        assert method == "GET"
        assert query is not None
        if path == "topics":
            assert query == {"scope": "visible"}
            rows = ({"name": name, "owner": "t", "resource": f"t#{name}#u-{name}"}
                    for name in self.logs)  # fmt: skip
            return {"topics": list(rows)}
        name = unquote(path.split("/")[1]).split("#")[1]
        if name in self.gone and query["partition"]:
            raise TopicNotExist(f"topic {name} does not exist")
        self.pages += 1
        return self._page(name, int(str(query["partition"])), int(str(query["offset"])))

    def _page(self, name: str, partition: int, offset: int) -> dict[str, Any]:
        chain = self.logs[name][partition]
        end = chain[-1].next_offset if chain else 0
        stop = min(end, offset + PAGE_RECORDS)
        parts = []
        for item in chain:
            first, after = max(item.first_offset, offset), min(item.next_offset, stop)
            if first < after:
                ten = 10 * (after - first)
                parts.append(MinuteUse(item.minute_ms, after - first, ten, first, after)._asdict())
        return {
            "topic": f"u-{name}", "name": name, "tenant": "t", "partition": partition,
            "partitions": len(self.logs[name]), "start_offset": 0, "next_offset": end,
            "metered_offset": end, "metered_since": 0, "total_bytes": 1_000, "minutes": parts,
            "next_page": stop if stop < end else None,
        }  # fmt: skip
