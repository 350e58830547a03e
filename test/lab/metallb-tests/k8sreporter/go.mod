module github.com/openshift-kni/k8sreporter

go 1.26.0

require (
	k8s.io/apimachinery v0.26.0
	sigs.k8s.io/controller-runtime v0.14.1
)
