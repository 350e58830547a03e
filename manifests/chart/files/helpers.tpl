{{/* Arguments, in which those of the user's take the place of those of the same name. */}}
{{- define "ccmadm.args" -}}
{{- $extra := default (list) .extra }}
{{- $given := dict }}
{{- range $extra }}
{{- $name := first (splitList "=" .) }}
{{- $_ := set $given $name (append (default (list) (get $given $name)) .) }}
{{- end }}
{{- $args := list }}
{{- range concat .args $extra }}
{{- $name := first (splitList "=" .) }}
{{- if hasKey $given $name }}
{{- $args = concat $args (get $given $name) }}
{{- $_ := set $given $name (list) }}
{{- else }}
{{- $args = append $args . }}
{{- end }}
{{- end }}
{{- toYaml $args }}
{{- end -}}

{{/* Variables, in which one of the user's takes the place of that of the same name. */}}
{{- define "ccmadm.env" -}}
{{- $env := list }}
{{- $names := list }}
{{- range .extra }}
{{- $names = append $names .name }}
{{- end }}
{{- range .env }}
{{- if not (has .name $names) }}
{{- $env = append $env . }}
{{- end }}
{{- end }}
{{- range .extra }}
{{- $env = append $env (dict "name" .name "valueFrom" (dict "secretKeyRef" (dict "name" .secret "key" .key))) }}
{{- end }}
{{- if $env }}
{{- toYaml $env }}
{{- end }}
{{- end -}}

{{/* The user's image, or the provider's for the minor version. */}}
{{- define "ccmadm.image" -}}
{{- if .image -}}
{{- .image -}}
{{- else if hasKey .known .minor -}}
{{- include "ccmadm.mirrored" (dict "image" (get .known .minor) "mirror" .mirror) -}}
{{- else -}}
{{- fail (printf "provider %s: no image for Kubernetes %s is known: set image" .provider .minor) -}}
{{- end -}}
{{- end -}}

{{/* The image in the mirror, as kubeadm's imageRepository. */}}
{{- define "ccmadm.mirrored" -}}
{{- $mirror := regexReplaceAll "/+$" .mirror "" -}}
{{- if has $mirror (list "" "registry.k8s.io") -}}
{{- .image -}}
{{- else -}}
{{- printf "%s/%s" $mirror (base .image) -}}
{{- end -}}
{{- end -}}

{{/* MAJOR.MINOR of the cluster. */}}
{{- define "ccmadm.minor" -}}
{{- $version := semver (default .Capabilities.KubeVersion.Version .Values.kubernetesVersion) -}}
{{- printf "%d.%d" $version.Major $version.Minor -}}
{{- end -}}

{{- define "ccmadm.host" -}}
{{- with .Values.controlPlaneEndpoint }}{{ (urlParse .).hostname }}{{ end -}}
{{- end -}}

{{- define "ccmadm.port" -}}
{{- with .Values.controlPlaneEndpoint }}{{ last (splitList ":" (urlParse .).host) }}{{ end -}}
{{- end -}}
