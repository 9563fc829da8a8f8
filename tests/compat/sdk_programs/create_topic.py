"""Create a topic with TalosAdmin and say its resource name."""

from sdk import Arguments, admin, run, say
from talos.thrift.topic.ttypes import CreateTopicRequest, TopicAttribute


def program(arguments: Arguments) -> None:
    request = CreateTopicRequest(
        topicName=arguments["topic"],
        topicAttribute=TopicAttribute(
            partitionNumber=arguments["partitions"], attributes=arguments.get("attributes")
        ),
    )
    info = admin(arguments).create_topic(request).topicInfo
    say(
        name=info.topicName,
        resource=info.topicTalosResourceName.topicTalosResourceName,
        owner=info.ownerId,
    )


if __name__ == "__main__":
    run(program)
