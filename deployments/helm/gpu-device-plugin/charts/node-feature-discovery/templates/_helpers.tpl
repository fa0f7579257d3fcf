{{- define "nfd.fullname" -}}
{{- $name := .Values.nameOverride | default .Chart.Name }}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" }}
{{- else if contains $name .Release.Name }}
{{- .Release.Name | trunc 63 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name $name | trunc 63 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "nfd.namespace" -}}
{{- .Values.namespaceOverride | default .Release.Namespace }}
{{- end }}

{{- define "nfd.selectorLabels" -}}
app.kubernetes.io/name: {{ .Values.nameOverride | default .Chart.Name | trunc 63 | trimSuffix "-" }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "nfd.labels" -}}
helm.sh/chart: node-feature-discovery-{{ .Chart.Version | replace "+" "_" }}
{{ include "nfd.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{/* Of (dict "root" . "part" "master", "worker" or "gc"). */}}
{{- define "nfd.serviceAccount" -}}
{{- $account := (index .root.Values .part).serviceAccount }}
{{- if not $account.create }}
{{- $account.name | default "default" }}
{{- else if $account.name }}
{{- $account.name }}
{{- else if eq .part "master" }}
{{- include "nfd.fullname" .root }}
{{- else }}
{{- include "nfd.fullname" .root }}-{{ .part }}
{{- end }}
{{- end }}

{{- define "nfd.image" -}}
{{- .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{/* Of (dict "root" . "part" PART): what its pods begin with. */}}
{{- define "nfd.podSpec" -}}
{{- $part := index .root.Values .part }}
serviceAccountName: {{ include "nfd.serviceAccount" . }}
enableServiceLinks: false
dnsPolicy: {{ $part.dnsPolicy }}
hostNetwork: {{ $part.hostNetwork }}
{{- with $part.priorityClassName | default .root.Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .root.Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $part.podSecurityContext }}
securityContext:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $part.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $part.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $part.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "nfd.featureGates" -}}
{{- range $name, $value := .Values.featureGates }}
- "-feature-gates={{ $name }}={{ $value }}"
{{- end }}
{{- end }}

{{/* Of the port: the master and the worker tell by gRPC whether they are well. */}}
{{- define "nfd.probes" -}}
livenessProbe:
  grpc:
    port: {{ . }}
  initialDelaySeconds: 10
readinessProbe:
  grpc:
    port: {{ . }}
  initialDelaySeconds: 5
  failureThreshold: 10
{{- end }}
