package observer

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// The printed commands go to the cluster that was looked at, and have no credentials.
func TestCluster_Kubectl(t *testing.T) {
	var o Cluster
	cmd := &cobra.Command{}
	o.DeclareKubeconfig(cmd)
	flags := []string{"--kubeconfig=f", "--server=https://192.0.2.1:6443", "--tls-server-name=api", "--certificate-authority=ca", "--token=secret"}
	if err := cmd.ParseFlags(append(flags, "--insecure-skip-tls-verify")); err != nil {
		t.Fatal(err)
	}
	want := "kubectl --kubeconfig=f --server=https://192.0.2.1:6443 --tls-server-name=api --certificate-authority=ca --insecure-skip-tls-verify"
	if got := strings.Join(o.Kubectl(), " "); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
