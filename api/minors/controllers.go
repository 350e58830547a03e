package minors

import "strings"

// NamesCloudController tells whether kube-controller-manager's --controllers names, or excludes, one of the cloud controllers
// that it had, by its name or by its former one. Up to 1.36 it knows the names and starts nothing; 1.37 ends with them
// (kubernetes/kubernetes#138002). The tables cannot say so: no program lists its controllers among its flags.
func NamesCloudController(controllers string) bool {
	for entry := range strings.SplitSeq(controllers, ",") {
		switch strings.TrimPrefix(entry, "-") {
		case "service-lb-controller", "node-route-controller", "cloud-node-lifecycle-controller",
			"service", "route", "cloud-node-lifecycle":
			return true
		}
	}
	return false
}
