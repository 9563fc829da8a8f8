#!/bin/bash
# The program of a container of Spark on Kubernetes, with what Spark gives it: "driver ARGUMENT..."
# is spark-submit in the pod of a driver, "executor" is an executor, described by its environment.
set -eu
start=()
if command -v tini >/dev/null; then # it ends what has lost its parent
    start=(tini -s --)
fi
case ${1:-} in
driver)
    shift
    exec "${start[@]}" "$SPARK_HOME/bin/spark-submit" --deploy-mode client \
        --conf "spark.driver.bindAddress=$SPARK_DRIVER_BIND_ADDRESS" \
        --conf "spark.executorEnv.SPARK_DRIVER_POD_IP=$SPARK_DRIVER_BIND_ADDRESS" "$@"
    ;;
executor)
    options=()
    for name in ${!SPARK_JAVA_OPT_@}; do
        options+=("${!name}")
    done
    exec "${start[@]}" java "${options[@]}" \
        "-Xms$SPARK_EXECUTOR_MEMORY" "-Xmx$SPARK_EXECUTOR_MEMORY" \
        -cp "${SPARK_CONF_DIR:-}:$SPARK_HOME/jars/*" \
        org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
        --driver-url "$SPARK_DRIVER_URL" \
        --executor-id "$SPARK_EXECUTOR_ID" \
        --cores "$SPARK_EXECUTOR_CORES" \
        --app-id "$SPARK_APPLICATION_ID" \
        --hostname "$SPARK_EXECUTOR_POD_IP" \
        --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" \
        --podName "$SPARK_EXECUTOR_POD_NAME"
    ;;
*)
    exec "$@"
    ;;
esac
