"""Tests of a program with a real server; the pytest fixtures are part of the package.

run: pytest pytest_example.py
"""

from opentalos.sdk import ClientConfig, Message, SimpleConsumer, SimpleProducer, Start


def shout(config: ClientConfig, source: str, target: str) -> int:
    """The program under test: copies a topic in capitals; returns how many messages it copied."""
    with SimpleConsumer(config, source) as consumer, SimpleProducer(config, target) as producer:
        records = [
            record
            for partition in consumer.offsets()
            for record in consumer.fetch(partition, Start.EARLIEST)
        ]
        if records:
            producer.put([record.data.upper() for record in records])
        return len(records)


def test_messages_are_copied_in_capitals(talos_server, talos_client_config, talos_topic):
    loud = talos_server.create_topic("loud").name
    with SimpleProducer(talos_client_config, talos_topic) as producer:
        producer.put([b"hello", Message(data=b"world", partition_key="greeting")])
    assert shout(talos_client_config, talos_topic, loud) == 2
    with SimpleConsumer(talos_client_config, loud) as consumer:
        assert [record.data for record in consumer.fetch(0, Start.EARLIEST)] == [b"HELLO", b"WORLD"]


def test_an_empty_topic_gives_nothing(talos_server, talos_client_config, talos_topic):
    silent = talos_server.create_topic("silent").name
    assert shout(talos_client_config, talos_topic, silent) == 0
