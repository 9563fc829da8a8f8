"""The pods that Spark's own code makes of a submission to Kubernetes, without a cluster.

usage: python -m tests.spark.kubernetes.spark_pods < WORDS

WORDS are those after ``spark-submit``, as JSON. Prints, as JSON, the driver's pod, what Spark
creates beside it, and the pod of an executor. Java is a process of its own, since Spark reads its
settings from the properties of the whole process.
"""

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import pyspark
from py4j.protocol import Py4JJavaError
from pyspark.java_gateway import launch_gateway
from tests.spark.java_classes import QUICK
from tests.waiting import ended

from opentalos.adapters.java_home import lean_spark_home, spark_java_home

APPLICATION: Final = "spark-0123456789abcdef"
NOWHERE: Final = "https://127.0.0.1:9"  # of the client that nothing here asks anything
TEMPLATE: Final = "spark.kubernetes.executor.podTemplateFile"


class SparkPods:
    """Spark's code in a Java of its own."""

    def __init__(self) -> None:
        os.environ["JAVA_HOME"] = str(spark_java_home())
        os.environ["SPARK_HOME"] = str(lean_spark_home(Path(pyspark.__path__[0])))
        os.environ["PYSPARK_SUBMIT_ARGS"] = f"--driver-java-options '{QUICK}' pyspark-shell"
        os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
        self._gateway: Any = launch_gateway()  # type: ignore[no-untyped-call]
        self._java = self._gateway.jvm
        self._kubernetes = self._java.org.apache.spark.deploy.k8s
        self._model = self._java.io.fabric8.kubernetes

    def close(self) -> None:
        self._gateway.shutdown()
        self._gateway.proc.stdin.close()
        ended(self._gateway.proc, "Java ends")

    def of(self, words: Sequence[str]) -> dict[str, Any]:
        """What Spark makes of a command line of spark-submit."""
        arguments, conf = self._submission(words)
        config = self._model.client.ConfigBuilder().withMasterUrl(NOWHERE).build()
        client = self._model.client.KubernetesClientBuilder().withConfig(config).build()
        driver_conf = self._confs.createDriverConf(
            conf, APPLICATION, arguments.mainAppResource(), arguments.mainClass(),
            arguments.driverArgs(), arguments.proxyUser(),
        )  # fmt: skip
        driver = self._kubernetes.submit.KubernetesDriverBuilder()
        made = driver.buildFromFeatures(driver_conf, client)
        beside = (
            *made.getDriverPreKubernetesResourcesAsJavaList(),
            *made.getDriverKubernetesResourcesAsJavaList(),
        )
        for name, text in made.getSystemPropertiesAsJavaMap().items():
            if name != TEMPLATE:  # it would name the file as the driver's pod mounts it
                conf.set(name, text)  # Spark gives them to the driver, which makes executors
        executor = self._executor(conf, client)
        return {
            "driver": self._pod(made.pod()),
            "beside": [self._document(item) for item in beside],
            "executor": self._pod(executor.pod()),
        }

    @property
    def _confs(self) -> Any:
        return _the_one(self._kubernetes, "KubernetesConf")

    def _submission(self, words: Sequence[str]) -> tuple[Any, Any]:
        """Arguments for the driver, and settings, as spark-submit has them."""
        deploy = self._java.org.apache.spark.deploy
        nothing = self._java.java.util.HashMap()
        same = _the_one(self._java.scala, "$less$colon$less").refl()
        environment = self._scala.asScala(nothing).toMap(same)
        given = deploy.SparkSubmitArguments(self._sequence(words), environment)
        none = self._java.scala.Option.apply(None)
        prepared = deploy.SparkSubmit().prepareSubmitEnvironment(given, none)
        left = list(self._scala.asJava(prepared._1()))
        array = self._gateway.new_array(self._java.java.lang.String, len(left))
        for number, word in enumerate(left):
            array[number] = word
        arguments = self._kubernetes.submit.ClientArguments.fromCommandLineArgs(array)
        return arguments, prepared._3()

    def _executor(self, conf: Any, client: Any) -> Any:
        spark = self._java.org.apache.spark
        none = self._java.scala.Option.apply(None)
        executor_conf = self._confs.createExecutorConf(conf, "1", APPLICATION, none, 0)
        profiles = _the_one(spark.resource, "ResourceProfile")
        secret_file = _the_one(spark.internal.config, "package").AUTH_SECRET_FILE()
        security = spark.SecurityManager(conf, none, secret_file)
        builder = spark.scheduler.cluster.k8s.KubernetesExecutorBuilder()
        profile = profiles.getOrCreateDefaultProfile(conf)
        return builder.buildFromFeatures(executor_conf, security, client, profile)

    @property
    def _scala(self) -> Any:
        return self._java.scala.jdk.javaapi.CollectionConverters

    def _sequence(self, words: Sequence[str]) -> Any:
        found = self._java.java.util.ArrayList()
        for word in words:
            found.add(word)
        return self._scala.asScala(found).toSeq()

    def _pod(self, made: Any) -> Any:
        """With its container, which Spark keeps apart until the end."""
        pod, container = self._document(made.pod()), self._document(made.container())
        pod["spec"].setdefault("containers", []).append(container)
        return pod

    def _document(self, item: Any) -> Any:
        return json.loads(self._model.client.utils.Serialization.asJson(item))


def _the_one(package: Any, name: str) -> Any:
    """The object of Scala of this name."""
    return getattr(getattr(package, f"{name}$"), "MODULE$")


def main() -> None:
    """Read, make, print."""
    pods = SparkPods()
    try:
        sys.stdout.write(json.dumps(pods.of(json.load(sys.stdin))) + "\n")
    except Py4JJavaError as error:
        sys.exit(str(error))  # which asks Java, so before its end
    finally:
        pods.close()


if __name__ == "__main__":
    main()
