{{/*
The manifests are those of deploy/, which are in files/ by links: there is no second copy of them.
Templates read an object, change what a value says, and write it.

berth.documents: a file of several documents as a list: {"objects": [...]}.
*/}}
{{- define "berth.documents" -}}
{{- $objects := list -}}
{{- range regexSplit "(?m)^---$" (.root.Files.Get (printf "files/%s" .file)) -1 -}}
{{- with fromYaml . -}}{{- $objects = append $objects . -}}{{- end -}}
{{- end -}}
{{- if not $objects -}}{{- fail (printf "the chart lacks files/%s" .file) -}}{{- end -}}
{{- toYaml (dict "objects" $objects) -}}
{{- end -}}

{{/* berth.objects writes the objects of a file as they are. */}}
{{- define "berth.objects" -}}
{{- range (include "berth.documents" . | fromYaml).objects }}
---
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* berth.kept writes the objects of a file, which Helm keeps when it removes the release. */}}
{{- define "berth.kept" -}}
{{- range (include "berth.documents" . | fromYaml).objects }}
{{- $annotations := .metadata.annotations | default dict }}
{{- $_ := set .metadata "annotations" (set $annotations "helm.sh/resource-policy" "keep") }}
---
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* berth.image is the reference of an image; its tag is the version of the release. */}}
{{- define "berth.image" -}}
{{- printf "%s:%s" .image.repository (.image.tag | default .root.Chart.AppVersion) -}}
{{- end -}}

{{/* berth.workload sets in a pod's spec what both programs have values for. */}}
{{- define "berth.workload" -}}
{{- $container := first .pod.containers -}}
{{- $_ := set $container "image" (include "berth.image" (dict "root" .root "image" .values.image)) -}}
{{- $_ = set $container "imagePullPolicy" .values.image.pullPolicy -}}
{{- with .values.resources -}}{{- $_ = set $container "resources" . -}}{{- end -}}
{{- with .root.Values.imagePullSecrets -}}{{- $_ = set $.pod "imagePullSecrets" . -}}{{- end -}}
{{- end -}}

{{/* berth.patch applies a strategic merge patch of deploy/ to the only container of a pod's spec. */}}
{{- define "berth.patch" -}}
{{- $patch := ((printf "files/%s" .file) | .root.Files.Get | fromYaml).spec.template.spec -}}
{{- $container := first .pod.containers -}}
{{- $change := first $patch.containers -}}
{{- $mounts := concat $container.volumeMounts ($change.volumeMounts | default list) -}}
{{- $volumes := concat .pod.volumes ($patch.volumes | default list) -}}
{{- $_ := mergeOverwrite $container $change (dict "volumeMounts" $mounts) -}}
{{- $_ = mergeOverwrite .pod (omit $patch "containers") (dict "volumes" $volumes) -}}
{{- end -}}

{{/* berth.policies is "true" where the admission policies are installed. YAML reads on as true. */}}
{{- define "berth.policies" -}}
{{- if eq (toString .Values.policies) "auto" -}}
{{- semverCompare ">=1.32.0-0" .Capabilities.KubeVersion.Version -}}
{{- else -}}
{{- has (toString .Values.policies) (list "on" "true") -}}
{{- end -}}
{{- end -}}

{{/* berth.mode is the mode of the scheduler, empty where there is none. YAML reads off as false. */}}
{{- define "berth.mode" -}}
{{- dict "sideBySide" "side-by-side" "replace" "replace" | dig (toString .Values.scheduler.mode) "" -}}
{{- end -}}
