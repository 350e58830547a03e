package kubeadm

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kubeadmapi "k8s.io/kubernetes/cmd/kubeadm/app/apis/kubeadm"
	kubeadmscheme "k8s.io/kubernetes/cmd/kubeadm/app/apis/kubeadm/scheme"
	kubeadmutil "k8s.io/kubernetes/cmd/kubeadm/app/util"
	"k8s.io/kubernetes/cmd/kubeadm/app/util/config/strict"
	"sigs.k8s.io/yaml"
)

// TestKubeadmFile_Kubeadm reads every edited file with kubeadm's own code, as strictly as `kubeadm config validate`,
// and expects nothing else to differ from the input than the cloud's arguments.
func TestKubeadmFile_Kubeadm(t *testing.T) {
	for _, path := range kubeadmFileInputs(t) {
		t.Run(filepath.Base(path), func(t *testing.T) {
			f := parseFile(t, path, readFile(t, path))
			f.TakeCloudConfiguration()
			role := roleOf(path)
			before := map[string]runtime.Object{}
			for _, d := range f.docs {
				if d.isKubeadm() {
					before[d.kind] = decodeKubeadm(t, []byte(d.Text))
				}
			}
			setExternal(t, f, role)
			documents, err := kubeadmutil.SplitConfigDocuments(f.Bytes())
			if err != nil {
				t.Fatal(err)
			}
			for gvk, text := range documents {
				if gvk.Group != kubeadmGroup {
					continue
				}
				gvk, text = current(t, gvk, text)
				if err := strict.VerifyUnmarshalStrict([]*runtime.Scheme{kubeadmscheme.Scheme}, gvk, text); err != nil {
					t.Errorf("%v in:\n%s", err, text)
				}
				after := decodeKubeadm(t, text)
				checkKubeletArgs(t, role, gvk.Kind, after, f)
				was, ok := before[gvk.Kind]
				if !ok {
					continue // ours
				}
				withoutCloudArgs(was)
				withoutCloudArgs(after)
				if diff := cmp.Diff(was, after); diff != "" {
					t.Errorf("%s (-before +after):\n%s", gvk.Kind, diff)
				}
				delete(before, gvk.Kind)
			}
			if len(before) > 0 {
				t.Errorf("lost %v", before)
			}
		})
	}
}

func decodeKubeadm(t *testing.T, text []byte) runtime.Object {
	t.Helper()
	_, text = current(t, schema.GroupVersionKind{}, text)
	obj, err := runtime.Decode(kubeadmscheme.Codecs.UniversalDecoder(kubeadmapi.SchemeGroupVersion), text)
	if err != nil {
		t.Fatalf("%v in:\n%s", err, text)
	}
	return obj
}

// current makes a document of v1beta3 one of v1beta4, as `kubeadm config migrate` of 1.36 does: later ones read no v1beta3.
func current(t *testing.T, gvk schema.GroupVersionKind, text []byte) (schema.GroupVersionKind, []byte) {
	t.Helper()
	var doc map[string]any
	if err := yaml.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	if doc["apiVersion"] != v1beta3 {
		return gvk, text
	}
	doc["apiVersion"], gvk.Version = v1beta4, "v1beta4"
	listArgs(doc)
	if server, ok := doc["apiServer"].(map[string]any); ok {
		delete(server, "timeoutForControlPlane") // InitConfiguration's since v1beta4
	}
	if discovery, ok := doc["discovery"].(map[string]any); ok {
		delete(discovery, "timeout") // timeouts.discovery
	}
	text, err := yaml.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	return gvk, text
}

func listArgs(at map[string]any) {
	for key, value := range at {
		below, ok := value.(map[string]any)
		switch {
		case !ok:
		case strings.HasSuffix(strings.ToLower(key), "extraargs"):
			list := []map[string]any{}
			for _, name := range slices.Sorted(maps.Keys(below)) {
				list = append(list, map[string]any{"name": name, "value": below[name]})
			}
			at[key] = list
		default:
			listArgs(below)
		}
	}
}

// checkKubeletArgs wants what kubeadm will write into the kubelet's flags to be what the accessors say.
func checkKubeletArgs(t *testing.T, role Role, kind string, obj runtime.Object, f *File) {
	t.Helper()
	if kind != role.kind() {
		return
	}
	got := map[string]string{}
	for _, a := range registration(obj).KubeletExtraArgs {
		got[normalizeFlag(a.Name)] = a.Value // the last one wins on the command line
	}
	if got["cloud-provider"] != "external" || got["node-ip"] == "" || got["cloud-config"] != "" {
		t.Errorf("kubelet arguments %v", got)
	}
	for name, want := range got {
		if value, ok := f.KubeletArg(role, name); !ok || value != want {
			t.Errorf("KubeletArg(%s) = %q, %t; kubeadm reads %q", name, value, ok, want)
		}
	}
}

func registration(obj runtime.Object) *kubeadmapi.NodeRegistrationOptions {
	switch c := obj.(type) {
	case *kubeadmapi.InitConfiguration:
		return &c.NodeRegistration
	case *kubeadmapi.JoinConfiguration:
		return &c.NodeRegistration
	}
	return &kubeadmapi.NodeRegistrationOptions{}
}

func withoutCloudArgs(obj runtime.Object) {
	strip := func(args *[]kubeadmapi.Arg) {
		*args = slices.DeleteFunc(*args, func(a kubeadmapi.Arg) bool {
			return slices.Contains([]string{"cloud-provider", "cloud-config", "node-ip"}, normalizeFlag(a.Name))
		})
		if len(*args) == 0 {
			*args = nil
		}
	}
	strip(&registration(obj).KubeletExtraArgs)
	if c, ok := obj.(*kubeadmapi.ClusterConfiguration); ok {
		strip(&c.APIServer.ExtraArgs)
		strip(&c.ControllerManager.ExtraArgs)
	}
}
