{{/* ---- The agent: devices, labels and configuration of a node in one pod ---- */}}

{{/* "true" if its pods are in the network of the host, as one of the two would be. */}}
{{- define "gpu-device-plugin.agentInHostNetwork" -}}
{{- if or .Values.devicePlugin.enableHostNetwork (and .Values.gfd.enabled .Values.gfd.enableHostNetwork) }}true{{ end }}
{{- end }}

{{/* "true" if it talks to the Kubernetes API. */}}
{{- define "gpu-device-plugin.agentAsks" -}}
{{- if or .Values.reportHealth (include "gpu-device-plugin.configMap" .) (and .Values.gfd.enabled (include "gpu-device-plugin.publishesNodeFeature" .)) }}true{{ end }}
{{- end }}

{{/* As a list: variables of devicePlugin and gfd, each once, and its own. */}}
{{- define "gpu-device-plugin.agentExtraEnv" -}}
{{- $variables := concat (.Values.devicePlugin.extraEnv | default list) (ternary (.Values.gfd.extraEnv | default list) list .Values.gfd.enabled) (.Values.agent.extraEnv | default list) }}
{{- $last := dict }}
{{- $names := list }}
{{- range $variables }}
{{- $names = append $names .name }}
{{- $_ := set $last .name . }}
{{- end }}
{{- $found := list }}
{{- range uniq $names }}
{{- $found = append $found (get $last .) }}
{{- end }}
{{- toYaml $found }}
{{- end }}

{{/* Changed configurations are followed without new pods, but for a simulated node. */}}
{{- define "gpu-device-plugin.agentAnnotations" -}}
{{- $annotations := deepCopy .Values.podAnnotations }}
{{- if and .Values.simulate.node (not (hasKey $annotations "checksum/config")) }}
{{- $_ := set $annotations "checksum/config" (sha256sum .Values.simulate.node) }}
{{- end }}
{{- toYaml $annotations }}
{{- end }}
