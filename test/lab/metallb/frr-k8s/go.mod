module github.com/metallb/frr-k8s

go 1.26.0
