package agreement

import (
	"context"
	"encoding/json"
	"time"

	"k8s.io/client-go/rest"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/doctor/nodes"
)

// MostKubelets is how many are asked for what they run with, kubeletsTimeout for how long all of them.
const (
	MostKubelets    = 50
	kubeletsTimeout = 4 * time.Second
)

// AskKubelets asks kubelets, through the API server, for what they run with. Those that do not tell, or may not be asked, are left out.
func AskKubelets(ctx context.Context, client rest.Interface, of []string) map[string]Kubelet {
	ctx, cancel := context.WithTimeout(ctx, kubeletsTimeout)
	defer cancel()
	told := nodes.AskEach(ctx, of, func(ctx context.Context, node string) *Kubelet {
		data, err := client.Get().AbsPath("/api/v1/nodes/" + node + "/proxy/configz").MaxRetries(0).DoRaw(ctx)
		var page struct {
			Config *struct {
				ClusterDNS    []string `json:"clusterDNS"`
				ClusterDomain string   `json:"clusterDomain"`
			} `json:"kubeletconfig"`
		}
		if err != nil || json.Unmarshal(data, &page) != nil || page.Config == nil {
			return nil
		}
		k := &Kubelet{Domain: finding.Clean(page.Config.ClusterDomain)}
		for _, address := range page.Config.ClusterDNS {
			k.DNS = append(k.DNS, finding.Clean(address))
		}
		return k
	})
	all := map[string]Kubelet{}
	for i, k := range told {
		if k != nil {
			all[of[i]] = *k
		}
	}
	return all
}
