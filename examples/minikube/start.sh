#!/bin/bash
# Starts a minikube cluster in external cloud mode, and the cloud-controller-manager of provider onprem in it. It may run again.
#   PROFILE  name of the cluster (default: ccmadm)
#   IMAGE    archive of the cloud-controller-manager's image, for a build of your own (default: pulled from the registry)
set -euo pipefail

profile=${PROFILE:-ccmadm}

# --wait leaves out the Node and the pods of CoreDNS: they are ready once the cloud-controller-manager runs.
minikube start --profile "$profile" --extra-config=kubelet.cloud-provider=external --wait=apiserver
if [ -n "${IMAGE:-}" ]; then
  minikube image load --profile "$profile" "$IMAGE"
fi
ccmadm render --provider onprem --cluster-name "$profile" --mode DaemonSet \
  --control-plane-endpoint https://control-plane.minikube.internal:8443 |
  kubectl --context "$profile" apply --server-side -f -
ccmadm wait --context "$profile" --timeout 5m
