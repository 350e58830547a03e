package bootstrap

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	certutil "k8s.io/client-go/util/cert"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/kubeadm"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/manifests"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// ShowJoinCommand prints what comes after init: the pod network, and how further machines join.
func ShowJoinCommand() workflow.Phase {
	return workflow.Phase{
		Name:  "show-join-command",
		Short: "Show how further machines join",
		Long: "Reads the bootstrap tokens, the cluster's CA, Nodes and ConfigMap/kube-system/kubeadm-config. Writes nothing. `kubeadm token create` " +
			"makes a new token when the old ones have expired.",
		Plan: func(context.Context, *workflow.Run) (string, error) {
			return "would show the command for further machines", nil
		},
		Run: func(ctx context.Context, r *workflow.Run) error {
			command, err := joinCommand(ctx, r)
			if errors.Is(err, errNoToken) && !r.Single { // all else is done, and the first day's tokens last a day
				r.Sayf("%v: %s", errNoToken, tokenHint)
				return nil
			}
			if err != nil {
				return err
			}
			steps, err := findNextSteps(ctx, r)
			if err != nil {
				return err
			}
			steps.join = command
			if given(r, "skip-token-print") {
				steps.join = tokenOf.ReplaceAllString(command, "--token "+withheld)
			}
			if given(r, "skip-certificate-key-print") && steps.key != "" {
				steps.key = withheld
			}
			_, err = io.WriteString(r.Progress(), steps.text())
			return err
		},
	}
}

// withheld stands for a secret that kubeadm was told not to print, in kubeadm's words.
const withheld = "<value withheld>"

var tokenOf = regexp.MustCompile(`--token \S+`)

// given tells whether one of kubeadm's own flags is set.
func given(r *workflow.Run, flag string) bool {
	f := r.Kubeadm.Lookup(flag)
	return f != nil && f.Value.String() == "true"
}

var errNoToken = errors.New("no bootstrap token is valid")

// tokenHint is how further machines join then.
const tokenHint = "kubeadm token create, then ccmadm init phase show-join-command"

func joinCommand(ctx context.Context, r *workflow.Run) (string, error) {
	client, err := workflow.Connect(r.Env, machine.AdminConf)
	if err != nil {
		return "", err
	}
	server, err := workflow.ControlPlaneEndpoint(ctx, r.Host)
	if err != nil {
		return "", err
	}
	endpoint, err := url.Parse(server)
	if err != nil {
		return "", fmt.Errorf("read the control-plane endpoint: %w", err)
	}
	s, err := r.Settings(ctx)
	if err != nil {
		return "", err
	}
	certs, err := certutil.CertsFromFile(filepath.Join(r.Machine.Path(s.CertificatesDir), "ca.crt"))
	if err != nil {
		return "", fmt.Errorf("read the cluster's CA: %w", err)
	}
	secrets, err := client.CoreV1().Secrets(metav1.NamespaceSystem).List(ctx, metav1.ListOptions{
		FieldSelector: "type=" + string(bootstrapapi.SecretTypeBootstrapToken),
	})
	if err != nil {
		return "", fmt.Errorf("look for a bootstrap token: %w", err)
	}
	token := usableToken(secrets.Items, r.Machine.Now())
	if token == "" {
		return "", finding.Errorf("show the join command: %w", errNoToken).WithHint("%s", tokenHint)
	}
	return fmt.Sprintf("ccmadm join %s --token %s --discovery-token-ca-cert-hash %s", endpoint.Host, token, kubeadm.PinOf(certs[0])), nil
}

// enoughTime is how long a token has to last for the command to be of use.
const enoughTime = time.Hour

// usableToken returns a token that can join a node and read the record. It prefers one that expires, and has time enough, to one that
// does not, which is often one of an installer. Of two it returns the one that lasts longer.
func usableToken(secrets []corev1.Secret, now time.Time) string {
	var best string
	var bestRank int
	var bestExpiry time.Time
	for _, s := range secrets {
		expiry, rank := now, 2 // without an end
		if text, expires := s.Data[bootstrapapi.BootstrapTokenExpirationKey]; expires {
			var err error
			if expiry, err = time.Parse(time.RFC3339, string(text)); err != nil || !expiry.After(now) {
				continue
			}
			if rank = 3; expiry.Sub(now) < enoughTime {
				rank = 1
			}
		}
		if joinsNodes(&s) && (rank > bestRank || rank == bestRank && expiry.After(bestExpiry)) {
			best = string(s.Data[bootstrapapi.BootstrapTokenIDKey]) + "." + string(s.Data[bootstrapapi.BootstrapTokenSecretKey])
			bestRank, bestExpiry = rank, expiry
		}
	}
	return best
}

// joinsNodes tells whether a token is for discovery and for nodes, as those that kubeadm makes: the record is for their group alone.
func joinsNodes(s *corev1.Secret) bool {
	return string(s.Data[bootstrapapi.BootstrapTokenUsageAuthentication]) == "true" &&
		string(s.Data[bootstrapapi.BootstrapTokenUsageSigningKey]) == "true" &&
		slices.Contains(strings.Split(string(s.Data[bootstrapapi.BootstrapTokenExtraGroupsKey]), ","), manifests.KubeadmBootstrappers)
}
