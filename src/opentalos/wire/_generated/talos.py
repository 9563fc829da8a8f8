"""Generated from idl/talos.thrift by scripts/generate_thrift.py; do not edit."""

from opentalos.wire._generated.consumer import CONSUMER_SERVICE
from opentalos.wire._generated.message import MESSAGE_SERVICE
from opentalos.wire._generated.metric import METRIC_SERVICE
from opentalos.wire._generated.quota import QUOTA_SERVICE
from opentalos.wire._generated.topic import TOPIC_SERVICE
from opentalos.wire.thrift.spec import ServiceSpec

SERVICES: dict[str, ServiceSpec] = {
    "QuotaService": QUOTA_SERVICE,
    "TopicService": TOPIC_SERVICE,
    "MessageService": MESSAGE_SERVICE,
    "ConsumerService": CONSUMER_SERVICE,
    "MetricService": METRIC_SERVICE,
}
