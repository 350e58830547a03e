package examples

import (
	"strings"
	"testing"

	bootstrap "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	controlplane "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	core "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/yaml"
)

// TestClusterAPI decodes each object into the type of Cluster API, which knows all fields, and looks at what the objects say of each other.
func TestClusterAPI(t *testing.T) {
	var (
		cluster      core.Cluster
		controlPlane controlplane.KubeadmControlPlane
		template     bootstrap.KubeadmConfigTemplate
		deployment   core.MachineDeployment
	)
	types := map[string]any{
		core.GroupVersion.String() + " Cluster":                     &cluster,
		controlplane.GroupVersion.String() + " KubeadmControlPlane": &controlPlane,
		bootstrap.GroupVersion.String() + " KubeadmConfigTemplate":  &template,
		core.GroupVersion.String() + " MachineDeployment":           &deployment,
	}
	for document := range strings.SplitSeq(read(t, "cluster-api/cluster.yaml"), "\n---\n") {
		var kind struct{ APIVersion, Kind string }
		if err := yaml.Unmarshal([]byte(document), &kind); err != nil {
			t.Fatal(err)
		}
		name := kind.APIVersion + " " + kind.Kind
		into := types[name]
		if into == nil {
			t.Errorf("%s is no kind of Cluster API that this test knows, or is there twice", name)
			continue
		}
		if err := yaml.UnmarshalStrict([]byte(document), into); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		delete(types, name)
	}
	for name := range types {
		t.Errorf("there is no %s", name)
	}
	if got := cluster.Spec.ControlPlaneRef; got.Name != controlPlane.Name || got.Kind != "KubeadmControlPlane" {
		t.Errorf("the Cluster names control plane %s %s, want %s", got.Kind, got.Name, controlPlane.Name)
	}
	machines := deployment.Spec.Template.Spec
	if got := machines.Bootstrap.ConfigRef; got.Name != template.Name || got.Kind != "KubeadmConfigTemplate" {
		t.Errorf("the MachineDeployment names bootstrap %s %s, want %s", got.Kind, got.Name, template.Name)
	}
	if deployment.Spec.ClusterName != cluster.Name || machines.ClusterName != cluster.Name {
		t.Errorf("the MachineDeployment is of cluster %s, want %s", deployment.Spec.ClusterName, cluster.Name)
	}
	for where, commands := range map[string][]string{
		"KubeadmControlPlane":   controlPlane.Spec.KubeadmConfigSpec.PreKubeadmCommands,
		"KubeadmConfigTemplate": template.Spec.Template.Spec.PreKubeadmCommands,
	} {
		if len(commands) != 1 || commands[0] != "ccmadm join phase kubelet" {
			t.Errorf("%s runs %q before kubeadm, want ccmadm's phase", where, commands)
		}
	}
	// The phase sets node-ip, of which lint cannot know: its absence is no more than a warning.
	run(t, *ccmadm, "lint", root+"/cluster-api/cluster.yaml")
}
