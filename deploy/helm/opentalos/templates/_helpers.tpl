{{/* Names. A pod's name is a label of DNS, at most 63 characters with its number and a hash. */}}
{{- define "opentalos.fullname" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "opentalos.peers" -}}
{{ include "opentalos.fullname" . }}-peers
{{- end -}}

{{- define "opentalos.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "opentalos.labels" -}}
{{ include "opentalos.selector" . }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "opentalos.scheme" -}}
{{ ternary "https" "http" (not (empty .Values.tls.secretName)) }}
{{- end -}}

{{/* HOST:PORT that clients are given; Kubernetes replaces $(NAME) in arguments. */}}
{{- define "opentalos.advertise" -}}
{{- $domain := printf "$(POD_NAMESPACE).svc.%s:9420" .Values.clusterDomain -}}
{{- if .Values.advertise -}}
{{ .Values.advertise }}
{{- else if eq .Values.mode "cluster" -}}
{{ printf "$(POD_NAME).%s.%s" (include "opentalos.peers" .) $domain }}
{{- else -}}
{{ printf "%s.$(POD_NAMESPACE).svc.%s:%v" (include "opentalos.fullname" .) .Values.clusterDomain .Values.service.port }}
{{- end -}}
{{- end -}}

{{/* What the chart sets in talos.toml, as JSON. */}}
{{- define "opentalos.ownConfig" -}}
{{- $config := dict "server" (dict "data" "/var/lib/opentalos/data" "listen" "0.0.0.0:9420" "log_format" "json") "kafka" (dict "listen" "0.0.0.0:9092") "console" (dict "enabled" true) "metrics" (dict "topics_max" 50) -}}
{{- if eq .Values.mode "cluster" -}}
{{- $_ := set $config "storage" (dict "files" .Values.storage.files "meta" .Values.storage.meta "rows" .Values.storage.rows) -}}
{{- $_ := set $config "cluster" (dict "key_file" "/run/secrets/opentalos/cluster-key" "restart" "lend" "restart_s" 45) -}}
{{- end -}}
{{- if .Values.hadoopConfigMap -}}
{{- $_ := set $config "hdfs" (dict "conf_dir" "/etc/hadoop") -}}
{{- end -}}
{{- if .Values.tls.secretName -}}
{{- $tls := dict "cert_file" "/run/secrets/tls/tls.crt" "key_file" "/run/secrets/tls/tls.key" "peer_ca_file" "/run/secrets/tls/ca.crt" -}}
{{- if ne .Values.tls.clientCertificates "none" -}}
{{- $_ := set $tls "client_ca_file" "/run/secrets/tls/ca.crt" -}}
{{- $_ := set $tls "client_optional" (eq .Values.tls.clientCertificates "optional") -}}
{{- end -}}
{{- $_ := set $config "tls" $tls -}}
{{- end -}}
{{- toJson $config -}}
{{- end -}}

{{/* The same with the sections of `config`, as JSON. */}}
{{- define "opentalos.config" -}}
{{- mergeOverwrite (include "opentalos.ownConfig" . | fromJson) .Values.config | toJson -}}
{{- end -}}

{{/* Strings, numbers and truth values of JSON are such of TOML. */}}
{{- define "opentalos.toml" -}}
{{- range $section, $keys := include "opentalos.config" . | fromJson }}
[{{ $section }}]
{{- range $key, $value := $keys }}
{{ $key }} = {{ toJson $value }}
{{- end }}
{{ end -}}
{{- end -}}

{{/* Seconds before SIGTERM. */}}
{{- define "opentalos.preStopSeconds" -}}
{{- $drain := and .Values.stop.drain (eq .Values.mode "cluster") -}}
{{ add .Values.stop.endpointsSeconds (ternary .Values.stop.drainSeconds 0 $drain) }}
{{- end -}}

{{/* Those, [cluster] stop_s, and ten for a busy machine. */}}
{{- define "opentalos.graceSeconds" -}}
{{- $cluster := (include "opentalos.config" . | fromJson).cluster | default dict -}}
{{ add (include "opentalos.preStopSeconds" .) (ceil ($cluster.stop_s | default 15)) 10 }}
{{- end -}}

{{/* The command before SIGTERM. A drain that fails or takes too long does not keep the server. */}}
{{- define "opentalos.preStop" -}}
{{- if and .Values.stop.drain (eq .Values.mode "cluster") -}}
{{- $tls := not (empty .Values.tls.secretName) -}}
timeout {{ .Values.stop.drainSeconds }} talos cluster drain "$POD_NAME" --key-file /run/secrets/opentalos/root-key
{{- if $tls }} --url "https://$ADVERTISE" --ca /run/secrets/tls/ca.crt
{{- if eq .Values.tls.clientCertificates "required" }} --cert /run/secrets/tls/tls.crt --cert-key /run/secrets/tls/tls.key{{ end }}
{{- else }} --url http://127.0.0.1:9420
{{- end }} || true; {{ end -}}
sleep {{ .Values.stop.endpointsSeconds }}
{{- end -}}

{{/* A probe of a path. A port that wants certificates is asked by a program of the image. */}}
{{- define "opentalos.probe" -}}
{{- if eq .root.Values.tls.clientCertificates "required" -}}
exec:
  command: [python3, /usr/local/lib/opentalos/healthcheck.py, /var/lib/opentalos/data]
{{- else -}}
httpGet:
  path: {{ .path }}
  port: http
  scheme: {{ include "opentalos.scheme" .root | upper }}
{{- end -}}
{{- end -}}

{{/* Values that contradict each other. */}}
{{- define "opentalos.check" -}}
{{- $config := include "opentalos.config" . | fromJson -}}
{{- with .Values.metrics.serviceMonitor -}}
{{- if .enabled -}}
{{- $open := eq (($config.metrics | default dict).access | default "admin") "open" -}}
{{- if and (not .basicAuthSecret) (not $open) -}}
{{- fail "metrics.serviceMonitor needs basicAuthSecret, or config.metrics.access: open" -}}
{{- end -}}
{{- $plain := ($config.auth | default dict).secrets_over_http | default false -}}
{{- if and .basicAuthSecret (not $.Values.tls.secretName) (not $plain) -}}
{{- fail "metrics.serviceMonitor sends a key: it needs tls.secretName, or config.auth.secrets_over_http: true" -}}
{{- end -}}
{{- if eq $.Values.tls.clientCertificates "required" -}}
{{- fail "metrics.serviceMonitor has no certificate: it needs tls.clientCertificates: optional" -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if and (ne .Values.tls.clientCertificates "none") (not .Values.tls.secretName) -}}
{{- fail "tls.clientCertificates needs tls.secretName" -}}
{{- end -}}
{{- end -}}
