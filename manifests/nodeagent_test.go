package manifests

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/ccmadm/ccmadm/templates"
)

// Whoever has the provider may write pools and peers, with the agent or without.
func TestNodeAgent_DefinitionsAlways(t *testing.T) {
	list, err := NodeAgent(onprem(t), values(templates.StaticPod))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, o := range list {
		names = append(names, o.GetKind()+"/"+o.GetName())
	}
	want := []string{
		"CustomResourceDefinition/addresspools.ccmadm.dev", "CustomResourceDefinition/bgppeers.ccmadm.dev",
		"CustomResourceDefinition/nodeagentleases.ccmadm.dev",
		"CustomResourceDefinition/nodeagents.ccmadm.dev", "CustomResourceDefinition/nodeannouncements.ccmadm.dev",
		"CustomResourceDefinition/noderoutes.ccmadm.dev",
	}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("objects (-want +got):\n%s", diff)
	}
}

func TestNodeAgent_Refused(t *testing.T) {
	for _, tt := range []struct {
		name    string
		profile func(*testing.T) *templates.Profile
		change  func(*templates.Values)
		wantErr string
	}{
		{
			name: "a provider that has none", profile: foreign,
			change:  func(*templates.Values) {},
			wantErr: "has none",
		},
		{
			name: "an endpoint without scheme", profile: onprem,
			change:  func(v *templates.Values) { v.Endpoint = "198.18.0.10:6443" },
			wantErr: "want https://host:port",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			v := values(templates.StaticPod)
			v.NodeAgent = true
			tt.change(&v)
			if _, err := NodeAgent(tt.profile(t), v); err == nil || !strings.Contains(err.Error(), tt.wantErr) {
				t.Errorf("got error %v, want %q", err, tt.wantErr)
			}
		})
	}
	if _, err := HeartbeatSecret([]byte("short")); err == nil {
		t.Error("a key of five bytes is taken")
	}
}

// Where routes are wanted, the agent sets them, and may write the one file that connects pods.
func TestNodeAgent_Routes(t *testing.T) {
	v := values(templates.StaticPod)
	v.NodeAgent, v.Routes = true, true
	list, err := NodeAgent(onprem(t), v)
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(list, func(o *Object) bool { return o.GetKind() == "DaemonSet" })
	if i < 0 {
		t.Fatal("no DaemonSet")
	}
	var set appsv1.DaemonSet
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(list[i].Object, &set); err != nil {
		t.Fatal(err)
	}
	c := set.Spec.Template.Spec.Containers[0]
	want := []string{"--routes=true", "--cluster-cidr=10.244.0.0/16", "--cni-config-dir=/etc/cni/net.d"}
	if diff := cmp.Diff(want, c.Args[len(c.Args)-3:]); diff != "" {
		t.Errorf("arguments (-want +got):\n%s", diff)
	}
	mounted := corev1.VolumeMount{Name: "cni-config", MountPath: "/etc/cni/net.d"}
	if diff := cmp.Diff(mounted, c.VolumeMounts[len(c.VolumeMounts)-1]); diff != "" {
		t.Errorf("last mount (-want +got):\n%s", diff)
	}
}

// Agents know the control plane's own address from their command line, with the port of its API servers.
func TestNodeAgent_ControlPlaneVIP(t *testing.T) {
	for _, tt := range []struct{ vip, endpoint, want string }{
		{"192.0.2.10", "https://192.0.2.10:7443", "--control-plane-vip=192.0.2.10:7443"},
		{"2001:db8::10", "https://[2001:db8::10]", "--control-plane-vip=[2001:db8::10]:6443"},
		{"", "https://api.example:6443", ""},
	} {
		v := values(templates.StaticPod)
		v.NodeAgent, v.ControlPlaneVIP, v.Endpoint = true, tt.vip, tt.endpoint
		list, err := NodeAgent(onprem(t), v)
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(list, func(o *Object) bool { return o.GetKind() == "DaemonSet" })
		var set appsv1.DaemonSet
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(list[i].Object, &set); err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, arg := range set.Spec.Template.Spec.Containers[0].Args {
			if strings.HasPrefix(arg, "--control-plane-vip") {
				got = arg
			}
		}
		if got != tt.want {
			t.Errorf("%s at %s: got %q, want %q", tt.vip, tt.endpoint, got, tt.want)
		}
	}
}
