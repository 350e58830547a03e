package phases

import (
	"context"

	"github.com/ccmadm/ccmadm/manifests"
	"github.com/ccmadm/ccmadm/manifests/apply"
)

func rbac() Phase {
	return Phase{
		Name:  "rbac",
		Short: "Give the cloud-controller-manager its permissions",
		Long:  "Reads the profile. Writes a ClusterRole, a Role and their bindings, and a ServiceAccount where the cloud-controller-manager is not a static pod. No permission is wider than the profile says.",
		Only:  managedModes(),
		Run: func(ctx context.Context, d *Data) error {
			s, v, err := valuesWithFiles(ctx, d)
			if err != nil {
				return err
			}
			objects, err := manifests.RBAC(s.Profile, v)
			if err != nil {
				return err
			}
			return applySet(ctx, d, apply.RBAC, bootstrapConf(d.Machine), objects)
		},
	}
}
