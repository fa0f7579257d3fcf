{{/* ---- Names ---- */}}

{{- define "gpu-device-plugin.name" -}}
{{- .Values.nameOverride | default .Chart.Name | trunc 63 | trimSuffix "-" }}
{{- end }}

{{/* What the names of all objects begin with. */}}
{{- define "gpu-device-plugin.fullname" -}}
{{- $name := .Values.nameOverride | default .Chart.Name }}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" }}
{{- else if contains $name .Release.Name }}
{{- .Release.Name | trunc 63 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name $name | trunc 63 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{/* Of (dict "root" . "suffix" TEXT): the suffix stays whole, so that no two names are the same. */}}
{{- define "gpu-device-plugin.suffixed" -}}
{{- $room := sub 62 (len .suffix) | int }}
{{- printf "%s-%s" (include "gpu-device-plugin.fullname" .root | trunc $room | trimSuffix "-") .suffix }}
{{- end }}

{{- define "gpu-device-plugin.gfdName" -}}
{{- $suffix := .Values.gfd.nameOverride | default "gpu-feature-discovery" }}
{{- include "gpu-device-plugin.suffixed" (dict "root" . "suffix" $suffix) }}
{{- end }}

{{- define "gpu-device-plugin.agentName" -}}
{{- include "gpu-device-plugin.suffixed" (dict "root" . "suffix" "agent") }}
{{- end }}

{{- define "gpu-device-plugin.mpsName" -}}
{{- include "gpu-device-plugin.suffixed" (dict "root" . "suffix" "mps-control-daemon") }}
{{- end }}

{{/* Of the name of a DaemonSet: that of its Service. */}}
{{- define "gpu-device-plugin.metricsName" -}}
{{- printf "%s-metrics" (trunc 55 . | trimSuffix "-") }}
{{- end }}

{{- define "gpu-device-plugin.dashboardNamespace" -}}
{{- .Values.metrics.dashboard.namespace | default (include "gpu-device-plugin.namespace" .) }}
{{- end }}

{{- define "gpu-device-plugin.namespace" -}}
{{- .Values.namespaceOverride | default .Release.Namespace }}
{{- end }}

{{- define "gpu-device-plugin.gfdNamespace" -}}
{{- .Values.gfd.namespaceOverride | default (include "gpu-device-plugin.namespace" .) }}
{{- end }}

{{- define "gpu-device-plugin.serviceAccount" -}}
{{- include "gpu-device-plugin.fullname" . }}-service-account
{{- end }}

{{- define "gpu-device-plugin.gfdServiceAccount" -}}
{{- include "gpu-device-plugin.gfdName" . }}-service-account
{{- end }}

{{- define "gpu-device-plugin.image" -}}
{{- printf "%s:%s" .Values.image.repository (.Values.image.tag | default (printf "v%s" .Chart.AppVersion)) }}
{{- end }}

{{/* ---- What runs ---- */}}

{{/* "true" if the device plugin, or the program that labels nodes, has a DaemonSet of its own. */}}
{{- define "gpu-device-plugin.pluginRuns" -}}
{{- if and .Values.devicePlugin.enabled (not .Values.agent.enabled) }}true{{ end }}
{{- end }}

{{- define "gpu-device-plugin.gfdRuns" -}}
{{- if and .Values.gfd.enabled (not .Values.agent.enabled) }}true{{ end }}
{{- end }}

{{/* ---- Labels and annotations ---- */}}

{{/* What is overridden goes before what is ours. */}}
{{- define "gpu-device-plugin.templateLabels" -}}
{{- merge (deepCopy .Values.selectorLabelsOverride) (dict
      "app.kubernetes.io/name" (include "gpu-device-plugin.name" .)
      "app.kubernetes.io/instance" .Release.Name
    ) | toYaml }}
{{- end }}

{{- define "gpu-device-plugin.labels" -}}
{{- merge (include "gpu-device-plugin.templateLabels" . | fromYaml) (dict
      "helm.sh/chart" (printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-")
      "app.kubernetes.io/version" .Chart.AppVersion
      "app.kubernetes.io/managed-by" .Release.Service
    ) | toYaml }}
{{- end }}

{{/* Of (dict "root" . "component" NAME): the labels of a component's objects. */}}
{{- define "gpu-device-plugin.componentLabels" -}}
{{- merge (include "gpu-device-plugin.labels" .root | fromYaml) (dict
      "app.kubernetes.io/component" .component
    ) | toYaml }}
{{- end }}

{{/* Of the same: the labels of its pods. */}}
{{- define "gpu-device-plugin.podLabels" -}}
{{- merge (include "gpu-device-plugin.templateLabels" .root | fromYaml) (dict
      "app.kubernetes.io/component" .component
    ) | toYaml }}
{{- end }}

{{/* Of the same: what its DaemonSet selects pods by. */}}
{{- define "gpu-device-plugin.selectorLabels" -}}
{{- if .root.Values.selectorLabelsOverride }}
{{- toYaml .root.Values.selectorLabelsOverride }}
{{- else if .root.Values.componentSelectors }}
{{- include "gpu-device-plugin.podLabels" . }}
{{- else }}
{{- include "gpu-device-plugin.templateLabels" .root }}
{{- end }}
{{- end }}

{{/* A change of the configurations replaces the pods. */}}
{{- define "gpu-device-plugin.podAnnotations" -}}
{{- $annotations := deepCopy .Values.podAnnotations }}
{{- if and (or .Values.config.map .Values.simulate.node) (not (hasKey $annotations "checksum/config")) }}
{{- $rendered := include (print $.Template.BasePath "/configmap.yaml") . }}
{{- $_ := set $annotations "checksum/config" (sha256sum $rendered) }}
{{- end }}
{{- toYaml $annotations }}
{{- end }}

{{/* ---- Configuration files ---- */}}

{{/* The ConfigMap with the configurations, empty if there is none. */}}
{{- define "gpu-device-plugin.configMap" -}}
{{- if .Values.config.name }}
{{- .Values.config.name }}
{{- else if .Values.config.map }}
{{- include "gpu-device-plugin.fullname" . }}-configs
{{- end }}
{{- end }}

{{/* "true" if a node without the label gets a configuration of config.map. */}}
{{- define "gpu-device-plugin.hasDefaultConfig" -}}
{{- $fallbacks := .Values.config.fallbackStrategies }}
{{- if .Values.config.default -}}
true
{{- else if and (has "named" $fallbacks) (hasKey .Values.config.map "default") -}}
true
{{- else if and (has "single" $fallbacks) (eq (len .Values.config.map) 1) -}}
true
{{- else if has "empty" $fallbacks -}}
true
{{- end }}
{{- end }}

{{/*
What the configurations call for, as YAML: mig, volumeMounts, mps (for whole resources), anyMps (for
single GPUs as well), each a list of the names of configurations. Of a ConfigMap that is not ours nothing is known, so it may call for everything.
*/}}
{{- define "gpu-device-plugin.demands" -}}
{{- $mig := list }}
{{- $volumeMounts := list }}
{{- $mps := list }}
{{- $anyMps := list }}
{{- if .Values.config.name }}
{{- $mig = append $mig .Values.config.name }}
{{- $volumeMounts = append $volumeMounts .Values.config.name }}
{{- $mps = append $mps .Values.config.name }}
{{- $anyMps = append $anyMps .Values.config.name }}
{{- end }}
{{- range $name, $text := .Values.config.map }}
{{- $config := ternary ($text | toString | fromYaml) $text (kindIs "string" $text) }}
{{- $flags := ($config | default dict).flags | default dict }}
{{- if not (has ($flags.migStrategy | default "none") (list "none")) }}
{{- $mig = append $mig $name }}
{{- end }}
{{- if contains "volume-mounts" (($flags.plugin | default dict).deviceListStrategy | default "" | toString) }}
{{- $volumeMounts = append $volumeMounts $name }}
{{- end }}
{{- if (($config | default dict).sharing | default dict).mps }}
{{- $mps = append $mps $name }}
{{- $anyMps = append $anyMps $name }}
{{- end }}
{{- $single := (($config | default dict).extensions | default dict).sharing }}
{{- range $entry := ternary $single list (kindIs "slice" $single) }}
{{- if and (kindIs "map" $entry) (eq "mps" (toString (get $entry "strategy"))) }}
{{- $anyMps = append $anyMps $name }}
{{- end }}
{{- end }}
{{- end }}
{{- dict "mig" $mig "volumeMounts" $volumeMounts "mps" $mps "anyMps" ($anyMps | uniq) | toYaml }}
{{- end }}

{{/* "true" if MIG devices may be offered, so that the container has to see them all. */}}
{{- define "gpu-device-plugin.watchesMig" -}}
{{- if kindIs "string" .Values.migStrategy }}
{{- if ne .Values.migStrategy "none" }}true{{ end }}
{{- else if (include "gpu-device-plugin.demands" . | fromYaml).mig -}}
true
{{- end }}
{{- end }}

{{/* "true" if the container needs the capability SYS_ADMIN. */}}
{{- define "gpu-device-plugin.needsSysAdmin" -}}
{{- $demands := include "gpu-device-plugin.demands" . | fromYaml }}
{{- if include "gpu-device-plugin.watchesMig" . -}}
true
{{- else if and .Values.config.map $demands.anyMps -}}
true
{{- else if .Values.deviceListStrategy }}
{{- if contains "volume-mounts" (.Values.deviceListStrategy | toString) }}true{{ end }}
{{- else if or $demands.volumeMounts $demands.anyMps -}}
true
{{- end }}
{{- end }}

{{/* "true" if the program that labels nodes talks to the Kubernetes API. */}}
{{- define "gpu-device-plugin.publishesNodeFeature" -}}
{{- if ternary .Values.gfd.useNodeFeatureAPI true (kindIs "bool" .Values.gfd.useNodeFeatureAPI) }}true{{ end }}
{{- end }}

{{/* ---- Security contexts ---- */}}

{{/* The image runs as nobody in particular; what is done to the kubelet and to GPUs needs root. */}}
{{- define "gpu-device-plugin.podSecurityContext" -}}
{{- merge (deepCopy .Values.podSecurityContext) (dict "runAsUser" 0 "runAsGroup" 0) | toYaml }}
{{- end }}

{{- define "gpu-device-plugin.privileged" -}}
privileged: true
readOnlyRootFilesystem: true
{{- end }}

{{- define "gpu-device-plugin.unprivileged" -}}
{{- if include "gpu-device-plugin.needsSysAdmin" . -}}
capabilities:
  drop: ["ALL"]
  add: ["SYS_ADMIN"]
{{- else -}}
allowPrivilegeEscalation: false
capabilities:
  drop: ["ALL"]
{{- end }}
readOnlyRootFilesystem: true
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{/* Of the device plugin, and of its sidecar, which has to be allowed to signal it. */}}
{{- define "gpu-device-plugin.pluginSecurityContext" -}}
{{- if .Values.securityContext }}
{{- toYaml .Values.securityContext }}
{{- else if .Values.compatWithCPUManager }}
{{- include "gpu-device-plugin.privileged" . }}
{{- else }}
{{- include "gpu-device-plugin.unprivileged" . }}
{{- end }}
{{- end }}

{{- define "gpu-device-plugin.gfdSecurityContext" -}}
{{- if .Values.gfd.securityContext }}
{{- toYaml .Values.gfd.securityContext }}
{{- else }}
{{- include "gpu-device-plugin.unprivileged" . }}
{{- end }}
{{- end }}

{{/* Of the agent: as much as the more demanding of the two that it stands for. */}}
{{- define "gpu-device-plugin.agentSecurityContext" -}}
{{- if .Values.agent.securityContext }}
{{- toYaml .Values.agent.securityContext }}
{{- else if and .Values.gfd.enabled (.Values.gfd.securityContext | default dict).privileged (not (.Values.securityContext | default dict).privileged) }}
{{- include "gpu-device-plugin.privileged" . }}
{{- else }}
{{- include "gpu-device-plugin.pluginSecurityContext" . }}
{{- end }}
{{- end }}

{{/* Of what only makes a link in a directory of its pod. */}}
{{- define "gpu-device-plugin.linkerSecurityContext" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
allowPrivilegeEscalation: false
capabilities:
  drop: ["ALL"]
readOnlyRootFilesystem: true
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{/* ---- Parts of pods ---- */}}

{{/* Of (dict "root" . "hostNetwork" BOOL): what the pods of all DaemonSets begin with. */}}
{{- define "gpu-device-plugin.podSpec" -}}
securityContext:
  {{- include "gpu-device-plugin.podSecurityContext" .root | nindent 2 }}
{{- with .root.Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .root.Values.runtimeClassName }}
runtimeClassName: {{ . }}
{{- end }}
{{- with .root.Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- if .hostNetwork }}
hostNetwork: true
dnsPolicy: ClusterFirstWithHostNet
{{- end }}
{{- end }}

{{/* Of (dict "root" . "nodeSelector" MAP): which nodes get the pods. */}}
{{- define "gpu-device-plugin.scheduling" -}}
{{- with .nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- if not (include "gpu-device-plugin.isSimulated" .root) }}
{{- with .root.Values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
{{- with .root.Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* Of (dict "name" VARIABLE "value" ANY "kind" "string" or "bool"): nothing for other types. */}}
{{- define "gpu-device-plugin.variable" -}}
{{- if kindIs .kind .value }}
- name: {{ .name }}
  value: {{ .value | toString | quote }}
{{- end }}
{{- end }}

{{/* What the values say of devices. */}}
{{- define "gpu-device-plugin.deviceVariables" -}}
- name: MPS_ROOT
  value: {{ .Values.mps.root | quote }}
{{- $strategies := .Values.deviceListStrategy }}
{{- if kindIs "slice" $strategies }}
{{- $strategies = join "," $strategies }}
{{- end }}
{{- range (list
      (dict "name" "MIG_STRATEGY" "kind" "string" "value" .Values.migStrategy)
      (dict "name" "FAIL_ON_INIT_ERROR" "kind" "bool" "value" .Values.failOnInitError)
      (dict "name" "PASS_DEVICE_SPECS" "kind" "bool" "value" .Values.compatWithCPUManager)
      (dict "name" "DEVICE_LIST_STRATEGY" "kind" "string" "value" $strategies)
      (dict "name" "DEVICE_ID_STRATEGY" "kind" "string" "value" .Values.deviceIDStrategy)
      (dict "name" "NVIDIA_DRIVER_ROOT" "kind" "string" "value" .Values.nvidiaDriverRoot)
      (dict "name" "NVIDIA_DEV_ROOT" "kind" "string" "value" .Values.nvidiaDevRoot)
      (dict "name" "NVIDIA_CDI_HOOK_PATH" "kind" "string" "value" .Values.cdi.nvidiaHookPath)
      (dict "name" "CDI_FEATURE_FLAGS" "kind" "string" "value" .Values.cdi.featureFlags)
      (dict "name" "GDRCOPY_ENABLED" "kind" "bool" "value" .Values.gdrcopyEnabled)
      (dict "name" "GDS_ENABLED" "kind" "bool" "value" .Values.gdsEnabled)
      (dict "name" "MOFED_ENABLED" "kind" "bool" "value" .Values.mofedEnabled)
    ) }}
{{- include "gpu-device-plugin.variable" . }}
{{- end }}
{{- end }}

{{/* What the values say of labels alone. */}}
{{- define "gpu-device-plugin.labelVariables" -}}
{{- $noTimestamp := ternary .Values.noTimestamp .Values.gfd.noTimestamp (kindIs "bool" .Values.noTimestamp) }}
{{- $sleepInterval := ternary .Values.sleepInterval .Values.gfd.sleepInterval (kindIs "string" .Values.sleepInterval) }}
{{- range (list
      (dict "name" "GFD_NO_TIMESTAMP" "kind" "bool" "value" $noTimestamp)
      (dict "name" "GFD_SLEEP_INTERVAL" "kind" "string" "value" $sleepInterval)
      (dict "name" "GFD_USE_NODE_FEATURE_API" "kind" "bool" "value" .Values.gfd.useNodeFeatureAPI)
    ) }}
{{- include "gpu-device-plugin.variable" . }}
{{- end }}
{{- end }}

{{/* Of (dict "root" . "extraEnv" LIST): variables of ours, the same for all programs. */}}
{{- define "gpu-device-plugin.commonVariables" -}}
{{- include "gpu-device-plugin.variable" (dict "name" "GPU_NODE_LOG_FORMAT" "value" .root.Values.logFormat "kind" "string") }}
{{- if .root.Values.simulate.node }}
- name: GPU_NODE_SIMULATE
  value: /simulated-node/node.yaml
{{- else if .root.Values.simulate.profile }}
- name: GPU_NODE_SIMULATE
  value: {{ .root.Values.simulate.profile | quote }}
{{- end }}
{{- with .extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "gpu-device-plugin.nodeName" -}}
- name: NODE_NAME
  valueFrom:
    fieldRef:
      fieldPath: spec.nodeName
{{- end }}

{{- define "gpu-device-plugin.isSimulated" -}}
{{- if or .Values.simulate.profile .Values.simulate.node }}true{{ end }}
{{- end }}

{{/* Volumes of what is known at the time of installation: configurations and the simulated node. */}}
{{- define "gpu-device-plugin.fileVolumes" -}}
{{- with include "gpu-device-plugin.configMap" . }}
- name: available-configs
  configMap:
    name: {{ . }}
{{- end }}
{{- if .Values.simulate.node }}
- name: simulated-node
  configMap:
    name: {{ include "gpu-device-plugin.fullname" . }}-simulated-node
{{- end }}
{{- end }}

{{- define "gpu-device-plugin.configMounts" -}}
- name: available-configs
  mountPath: /available-configs
- name: config
  mountPath: /config
{{- end }}

{{- define "gpu-device-plugin.fileMounts" -}}
{{- if include "gpu-device-plugin.configMap" . }}
{{ include "gpu-device-plugin.configMounts" . }}
{{- end }}
{{- if .Values.simulate.node }}
- name: simulated-node
  mountPath: /simulated-node
  readOnly: true
{{- end }}
{{- end }}

{{/*
Of (dict "root" . "name" CONTAINER "process" PROCESS "securityContext" YAML): a config-manager; one
without a process chooses the configuration once, before the program starts.
*/}}
{{- define "gpu-device-plugin.configManager" -}}
- name: {{ .name }}
  image: {{ include "gpu-device-plugin.image" .root }}
  command: ["config-manager"]
  env:
    - name: ONESHOT
      value: {{ empty .process | quote }}
    - name: KUBECONFIG
      value: ""
    {{- include "gpu-device-plugin.nodeName" .root | nindent 4 }}
    - name: NODE_LABEL
      value: nvidia.com/device-plugin.config
    - name: CONFIG_FILE_SRCDIR
      value: /available-configs
    - name: CONFIG_FILE_DST
      value: /config/config.yaml
    - name: DEFAULT_CONFIG
      value: {{ .root.Values.config.default | quote }}
    - name: FALLBACK_STRATEGIES
      value: {{ .root.Values.config.fallbackStrategies | join "," | quote }}
    - name: SEND_SIGNAL
      value: {{ not (empty .process) | quote }}
    - name: SIGNAL
      value: {{ ternary "1" "" (not (empty .process)) | quote }}
    - name: PROCESS_TO_SIGNAL
      value: {{ .process | quote }}
    {{- if .root.Values.configManager.validate }}
    - name: VALIDATE_CONFIG
      value: "true"
    {{- end }}
    {{- with include "gpu-device-plugin.variable" (dict "name" "GPU_NODE_LOG_FORMAT" "value" .root.Values.logFormat "kind" "string") }}
    {{- . | trim | nindent 4 }}
    {{- end }}
  {{- with .root.Values.configManager.resources }}
  resources:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  securityContext:
    {{- .securityContext | nindent 4 }}
  volumeMounts:
    {{- include "gpu-device-plugin.configMounts" .root | nindent 4 }}
{{- end }}

{{/* ---- Mistakes ---- */}}

{{/* Values that nothing reads, joined by commas. "known" is what values.schema.json lists as well. */}}
{{- define "gpu-device-plugin.unknownValues" -}}
{{- $known := list
      "affinity" "agent" "allowDefaultNamespace" "cdi" "compatWithCPUManager" "componentSelectors" "config"
      "configManager" "deviceDiscoveryStrategy" "deviceIDStrategy" "deviceListStrategy"
      "devicePlugin" "failOnInitError" "fullnameOverride" "gdrcopyEnabled" "gdsEnabled" "gfd"
      "global" "image" "imagePullSecrets" "logFormat" "metrics" "migStrategy" "mofedEnabled" "mps"
      "nameOverride" "namespace" "namespaceOverride" "networkPolicy" "nfd" "noTimestamp"
      "nodeSelector" "nvidiaDevRoot" "nvidiaDriverRoot" "podAnnotations" "podSecurityContext"
      "priorityClassName" "probes" "reportHealth" "resources" "runtimeClassName"
      "securityContext" "selectorLabelsOverride" "simulate" "sleepInterval" "strictValues" "tolerations"
      "updateStrategy" }}
{{- $unknown := list }}
{{- range $name, $_ := .Values }}
{{- if not (has $name $known) }}
{{- $unknown = append $unknown $name }}
{{- end }}
{{- end }}
{{- $pod := list "affinity" "annotations" "dnsPolicy" "enable" "extraArgs" "extraEnvs" "hostNetwork"
      "nodeSelector" "podSecurityContext" "rbac" "resources" "securityContext" "serviceAccount"
      "tolerations" }}
{{- $parts := dict
      "master" (concat $pod (list "config" "deploymentAnnotations" "denyLabelNs" "enableTaints"
        "extraLabelNs" "healthPort" "instance" "metricsPort" "replicaCount" "resyncPeriod"))
      "worker" (concat $pod (list "config" "daemonsetAnnotations" "healthPort" "metricsPort" "mountUsrSrc"
        "priorityClassName"))
      "gc" (concat (without $pod "securityContext") (list "deploymentAnnotations" "interval"
        "replicaCount")) }}
{{- $nfd := list "enabled" "featureGates" "fullnameOverride" "gc" "global" "image"
      "imagePullSecrets" "master" "nameOverride" "namespaceOverride" "postDeleteCleanup"
      "priorityClassName" "worker" }}
{{- range $name, $value := .Values.nfd }}
{{- if not (has $name $nfd) }}
{{- $unknown = append $unknown (print "nfd." $name) }}
{{- else if and (hasKey $parts $name) (kindIs "map" $value) }}
{{- range $key, $_ := $value }}
{{- if not (has $key (get $parts $name)) }}
{{- $unknown = append $unknown (printf "nfd.%s.%s" $name $key) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- $unknown | sortAlpha | join ", " }}
{{- end }}
