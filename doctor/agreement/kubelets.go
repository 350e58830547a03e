package agreement

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/doctor/nodes"
)

// MostKubelets is how many are asked for what they run with, kubeletsTimeout for how long all of them.
const (
	MostKubelets    = 50
	kubeletsTimeout = 4 * time.Second
)

// told is what came of a question.
type told struct {
	kubelet *Kubelet
	err     error
}

// refused says that a kubelet has answered, and does not tell: it has no such page.
func (t *told) refused() bool {
	return apierrors.IsNotFound(t.err) || apierrors.IsMethodNotSupported(t.err)
}

// AskKubelets asks kubelets, through the API server, for what they run with. At most [MostKubelets] are asked: a sample shows
// what they agree on. The error says how many of these did not answer, and why; before others, it names one that has answered without.
func AskKubelets(ctx context.Context, client rest.Interface, all []string) (map[string]Kubelet, error) {
	ctx, cancel := context.WithTimeout(ctx, kubeletsTimeout)
	defer cancel()
	of := all[:min(len(all), MostKubelets)]
	answers := nodes.AskEach(ctx, of, func(ctx context.Context, node string) told {
		k, err := askKubelet(ctx, client, node)
		return told{k, err}
	})
	known := map[string]Kubelet{}
	var lost []int
	for i, a := range answers {
		if a.err != nil {
			lost = append(lost, i)
			continue
		}
		known[of[i]] = *a.kubelet
	}
	if len(lost) > 0 {
		such := lost[max(slices.IndexFunc(lost, func(i int) bool { return answers[i].refused() }), 0)]
		return known, fmt.Errorf("%d of %d kubelets did not answer, such as %s: %w", len(lost), len(of), of[such], answers[such].err)
	}
	return known, nil
}

func askKubelet(ctx context.Context, client rest.Interface, node string) (*Kubelet, error) {
	data, err := client.Get().AbsPath("/api/v1/nodes/" + node + "/proxy/configz").MaxRetries(0).DoRaw(ctx)
	if err != nil {
		return nil, err
	}
	var page struct {
		Config *struct {
			ClusterDNS    []string `json:"clusterDNS"`
			ClusterDomain string   `json:"clusterDomain"`
		} `json:"kubeletconfig"`
	}
	if err := json.Unmarshal(data, &page); err != nil {
		return nil, fmt.Errorf("read what it runs with: %w", err)
	}
	if page.Config == nil {
		return nil, errors.New("read what it runs with: it has no kubeletconfig")
	}
	k := &Kubelet{Domain: finding.Clean(page.Config.ClusterDomain)}
	for _, address := range page.Config.ClusterDNS {
		k.DNS = append(k.DNS, finding.Clean(address))
	}
	return k, nil
}
