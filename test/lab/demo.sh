#!/usr/bin/env bash
# Boots one control plane and two workers, and makes them a cluster with ccmadm. LAB is the lab's command.
set -euo pipefail
lab() { local verb=$1; shift; $LAB "$verb" --name demo "$@"; }
step() { printf '\n\033[1m$ %s\033[0m\n' "$*"; }

$LAB down --name demo
lab up --install --control-planes 1 --workers 2 \
  --image bin/images/cloud-controller-manager.tar --image bin/images/node-agent.tar --binary bin/ccmadm

step 'cp1: ccmadm init --config /etc/lab/kubeadm.yaml --routes'
lab exec cp1 -- ccmadm init --config /etc/lab/kubeadm.yaml --routes --ignore-preflight-errors SystemVerification

join=$(lab exec cp1 -- ccmadm init phase show-join-command | grep -o 'ccmadm join .*')
for worker in w1 w2; do
  step "$worker: $join"
  lab exec "$worker" -- $join --ignore-preflight-errors SystemVerification
done

step 'cp1: ccmadm wait --for Ready'
lab exec cp1 -- ccmadm wait --for Ready
step 'cp1: kubectl get nodes -o wide'
lab exec cp1 -- kubectl --kubeconfig /etc/kubernetes/admin.conf get nodes -o wide
cat <<'END'

Look around:   bin/lab exec --name demo cp1 -- bash
               export KUBECONFIG=/etc/kubernetes/admin.conf; kubectl get pods -A; ccmadm status
Take it down:  make demo-down
END
