"""ApiVersions: what this server serves; the first request of most clients."""

from opentalos.gateway.kafka.call import KafkaCall
from opentalos.gateway.kafka.gateway import Services, UnknownVersion
from opentalos.wire.kafka._generated.api_versions_response import ApiVersion, ApiVersionsResponse
from opentalos.wire.kafka.errors import ErrorCode


async def handle(services: Services, call: KafkaCall) -> ApiVersionsResponse:
    """The versions of every request that is served."""
    unknown = call.session.state.pop(UnknownVersion, False)
    keys = [
        ApiVersion(api_key=key, min_version=first, max_version=last)
        for key, (first, last) in sorted(services.versions.items())
    ]
    code = ErrorCode.UNSUPPORTED_VERSION if unknown else ErrorCode.NONE
    return ApiVersionsResponse(error_code=int(code), api_keys=keys)
