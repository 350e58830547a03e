package templates

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestImageRef(t *testing.T) {
	tests := []struct {
		name    string
		values  Values
		want    string
		wantErr string
	}{
		{
			name:   "the tag follows the values",
			values: Values{Version: "v1.2.3"},
			want:   "ghcr.io/ccmadm/cloud-controller-manager:v1.2.3",
		},
		{
			name:   "the user's tag wins",
			values: Values{Version: "v1.2.3", ImageTag: "v9"},
			want:   "ghcr.io/ccmadm/cloud-controller-manager:v9",
		},
		{
			name:   "a complete reference wins",
			values: Values{Version: "v1.2.3", Image: "mine:1", ImageTag: "v9", ImageRepository: "registry.example"},
			want:   "mine:1",
		},
		{
			name:   "a mirror takes the place of registry and path",
			values: Values{Version: "v1.2.3", ImageRepository: "registry.example:5000/k8s/"},
			want:   "registry.example:5000/k8s/cloud-controller-manager:v1.2.3",
		},
		{
			name:   "kubeadm's default registry is no mirror",
			values: Values{Version: "v1.2.3", ImageRepository: "registry.k8s.io"},
			want:   "ghcr.io/ccmadm/cloud-controller-manager:v1.2.3",
		},
		{
			name:    "no tag",
			wantErr: "no tag of ghcr.io/ccmadm/cloud-controller-manager is known",
		},
	}
	p, err := Load("onprem")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := p.ImageRef(tt.values)
			if got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
			checkError(t, err, tt.wantErr)
		})
	}
}

func TestImages_Mirror(t *testing.T) {
	p, err := Load("azure")
	if err != nil {
		t.Fatal(err)
	}
	got, err := p.Images(Values{KubernetesVersion: "v1.36.2", ImageRepository: "registry.example"})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"registry.example/azure-cloud-controller-manager:v1.36.5",
		"registry.example/azure-cloud-node-manager:v1.36.5",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("images (-want +got):\n%s", diff)
	}
}

func TestImage_ByKubernetesVersion(t *testing.T) {
	image := Image{
		Repository: "example.com/ccm",
		Tags:       map[string]string{"1.34": "v1.34.3", "1.36": "v1.36.1"},
		Late:       "no v1.40 is tagged yet", // said of newer versions only
	}
	tests := []struct{ version, want, wantErr string }{
		{version: "v1.36.3", want: "example.com/ccm:v1.36.1"},
		{version: "1.34.0-rc.1", want: "example.com/ccm:v1.34.3"},
		{
			version: "v1.35.0",
			wantErr: "no release of example.com/ccm for Kubernetes 1.35 is known, the nearest is 1.36 (v1.36.1): " +
				"set controllerManager.version",
		},
		{
			version: "v1.40.0",
			wantErr: "for Kubernetes 1.40 is known (no v1.40 is tagged yet), the nearest is 1.36 (v1.36.1): set controllerManager.version",
		},
		{version: "v1.28.0", wantErr: "the nearest is 1.34 (v1.34.3)"},
		{version: "", wantErr: "depends on the Kubernetes version"},
	}
	for _, tt := range tests {
		t.Run(tt.version, func(t *testing.T) {
			got, err := image.ref(Values{KubernetesVersion: tt.version})
			if got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
			checkError(t, err, tt.wantErr)
		})
	}
}

// checkError wants an error with these words, or none.
func checkError(t *testing.T, err error, want string) {
	t.Helper()
	switch {
	case err == nil && want != "":
		t.Errorf("got no error, want %q", want)
	case err != nil && (want == "" || !strings.Contains(err.Error(), want)):
		t.Errorf("got error %v, want %q", err, want)
	}
}
