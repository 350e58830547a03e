package manifests

import (
	"testing"

	"github.com/ccmadm/ccmadm/templates"
)

func approving(mode templates.Mode) templates.Values {
	v := values(mode)
	v.ServingCertificates = true
	return v
}

func TestRenderServing(t *testing.T) {
	for _, tt := range []struct {
		name   string
		render func() ([]*Object, error)
	}{
		{
			name: "static pod that approves serving certificates",
			render: func() ([]*Object, error) {
				v := approving(templates.StaticPod)
				v.ServingRanges = "198.18.0.0/24,2001:db8::/64"
				return parseOne(StaticPod(onprem(t), v))
			},
		},
		{
			name:   "rbac of a static pod that approves serving certificates",
			render: func() ([]*Object, error) { return RBAC(onprem(t), approving(templates.StaticPod)) },
		},
		{
			name: "approver beside another provider",
			render: func() ([]*Object, error) {
				v := approving(templates.StaticPod)
				v.ServingRanges = "198.18.0.0/24"
				return Addon(foreign(t), v)
			},
		},
		{
			name:   "rbac of an approver beside another provider",
			render: func() ([]*Object, error) { return RBAC(foreign(t), approving(templates.DaemonSet)) },
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			list, err := tt.render()
			if err != nil {
				t.Fatal(err)
			}
			golden(t, list)
		})
	}
}
