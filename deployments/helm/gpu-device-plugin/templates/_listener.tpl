{{/*
The port for metrics, probes and the status page. Every template here takes
(dict "root" . "part" NAME), where the part is a key of metrics.ports.
*/}}

{{/* "true" if the programs listen at all. */}}
{{- define "gpu-device-plugin.listens" -}}
{{- if or .Values.metrics.enabled .Values.probes.enabled }}true{{ end }}
{{- end }}

{{- define "gpu-device-plugin.port" -}}
{{- get .root.Values.metrics.ports .part | int }}
{{- end }}

{{- define "gpu-device-plugin.endpoints" -}}
{{- $endpoints := list }}
{{- if .Values.metrics.enabled }}
{{- $endpoints = append $endpoints "metrics" }}
{{- if .Values.metrics.statusPage }}
{{- $endpoints = append $endpoints "status" }}
{{- end }}
{{- end }}
{{- if .Values.probes.enabled }}
{{- $endpoints = append $endpoints "probes" }}
{{- end }}
{{- join "," $endpoints }}
{{- end }}

{{- define "gpu-device-plugin.listenerVariables" -}}
{{- if include "gpu-device-plugin.listens" .root }}
- name: GPU_NODE_METRICS_ADDRESS
  value: ":{{ include "gpu-device-plugin.port" . }}"
- name: GPU_NODE_METRICS_ENDPOINTS
  value: {{ include "gpu-device-plugin.endpoints" .root | quote }}
{{- if .root.Values.metrics.tls.secretName }}
- name: GPU_NODE_METRICS_TLS_CERT_FILE
  value: /metrics-tls/tls.crt
- name: GPU_NODE_METRICS_TLS_KEY_FILE
  value: /metrics-tls/tls.key
{{- end }}
{{- if .root.Values.metrics.token.secretName }}
- name: GPU_NODE_METRICS_TOKEN_FILE
  value: /metrics-token/{{ .root.Values.metrics.token.key }}
{{- end }}
{{- end }}
{{- end }}

{{/* "true" if the plugin asks the kubelet who holds what. */}}
{{- define "gpu-device-plugin.asksForPods" -}}
{{- if and .Values.metrics.enabled .Values.metrics.podResources.enabled }}true{{ end }}
{{- end }}

{{/* Of the programs that offer devices, in addition. */}}
{{- define "gpu-device-plugin.podResourcesVariables" -}}
{{- if include "gpu-device-plugin.listens" . }}
- name: GPU_NODE_POD_RESOURCES_SOCKET
  value: {{ ternary "/var/lib/kubelet/pod-resources/kubelet.sock" "" (include "gpu-device-plugin.asksForPods" . | not | not) | quote }}
{{- end }}
{{- end }}

{{- define "gpu-device-plugin.listenerMounts" -}}
{{- if include "gpu-device-plugin.listens" . }}
{{- if .Values.metrics.tls.secretName }}
- name: metrics-tls
  mountPath: /metrics-tls
  readOnly: true
{{- end }}
{{- if .Values.metrics.token.secretName }}
- name: metrics-token
  mountPath: /metrics-token
  readOnly: true
{{- end }}
{{- end }}
{{- end }}

{{- define "gpu-device-plugin.listenerVolumes" -}}
{{- if include "gpu-device-plugin.listens" . }}
{{- with .Values.metrics.tls.secretName }}
- name: metrics-tls
  secret:
    secretName: {{ . }}
{{- end }}
{{- with .Values.metrics.token }}
{{- if .secretName }}
- name: metrics-token
  secret:
    secretName: {{ .secretName }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{- define "gpu-device-plugin.podResourcesMount" -}}
{{- if include "gpu-device-plugin.asksForPods" . }}
- name: pod-resources
  mountPath: /var/lib/kubelet/pod-resources
  readOnly: true
{{- end }}
{{- end }}

{{- define "gpu-device-plugin.podResourcesVolume" -}}
{{- if include "gpu-device-plugin.asksForPods" . }}
- name: pod-resources
  hostPath:
    path: {{ .Values.metrics.podResources.path }}
    type: Directory
{{- end }}
{{- end }}

{{/*
The port of a container, and the probes that ask there; "readiness" false leaves that one out, and
so does null in the values.
*/}}
{{- define "gpu-device-plugin.listener" -}}
{{- if include "gpu-device-plugin.listens" .root }}
ports:
  - name: metrics
    containerPort: {{ include "gpu-device-plugin.port" . }}
    protocol: TCP
{{- if .root.Values.probes.enabled }}
{{- $scheme := ternary "HTTPS" "HTTP" (not (empty .root.Values.metrics.tls.secretName)) }}
{{- with .root.Values.probes.liveness }}
livenessProbe:
  httpGet: {path: /livez, port: metrics, scheme: {{ $scheme }}}
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- if and .root.Values.probes.readiness (ne (get . "readiness" | toString) "false") }}
readinessProbe:
  httpGet: {path: /readyz, port: metrics, scheme: {{ $scheme }}}
  {{- toYaml .root.Values.probes.readiness | nindent 2 }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{/* What listens, as YAML: a list of part, component, name, namespace, and whether in the host's network. */}}
{{- define "gpu-device-plugin.listeners" -}}
{{- $namespace := include "gpu-device-plugin.namespace" . }}
{{- $listeners := list }}
{{- if include "gpu-device-plugin.pluginRuns" . }}
{{- $listeners = append $listeners (dict "part" "devicePlugin" "component" "device-plugin" "name" (include "gpu-device-plugin.fullname" .) "namespace" $namespace "inHost" .Values.devicePlugin.enableHostNetwork) }}
{{- end }}
{{- if .Values.agent.enabled }}
{{- $listeners = append $listeners (dict "part" "agent" "component" "agent" "name" (include "gpu-device-plugin.agentName" .) "namespace" $namespace "inHost" (include "gpu-device-plugin.agentInHostNetwork" .)) }}
{{- end }}
{{- if and .Values.devicePlugin.enabled .Values.mps.enabled }}
{{- $listeners = append $listeners (dict "part" "mps" "component" "mps-control-daemon" "name" (include "gpu-device-plugin.mpsName" .) "namespace" $namespace "inHost" .Values.mps.enableHostNetwork) }}
{{- end }}
{{- if include "gpu-device-plugin.gfdRuns" . }}
{{- $listeners = append $listeners (dict "part" "gfd" "component" "gpu-feature-discovery" "name" (include "gpu-device-plugin.gfdName" .) "namespace" (include "gpu-device-plugin.gfdNamespace" .) "inHost" .Values.gfd.enableHostNetwork) }}
{{- end }}
{{- toYaml $listeners }}
{{- end }}
