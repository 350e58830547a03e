package config

import (
	"strings"
	"testing"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

const planted = "hunter2hunter2"

// A credential in clear is refused with the way to give it, and the error does not repeat it.
func TestControllerManager_Credentials(t *testing.T) {
	for _, field := range []string{
		"extraEnv: [DB_PASS=" + planted + "]", "extraEnv: ['HTTPS_PROXY=http://u:" + planted + "@p:1']",
		"extraArgs: [--api-token=" + planted + "]", "extraArgs: ['--endpoint=https://u:" + planted + "@c']",
	} {
		_, err := DecodeCloudConfiguration("f.yaml", 1, []byte("apiVersion: "+v1alpha1.APIVersion+"\nkind: "+ConfigKind+"\ncontrollerManager: {"+field+"}\n"))
		if err == nil || strings.Contains(err.Error(), planted) || !strings.Contains(err.Error(), "has a credential") {
			t.Errorf("%s: got %v", field, err)
		}
	}
	for _, field := range []string{
		"extraEnv: ['DB_PASS=${credential:db}', 'X_TOKEN=/etc/token', REGION=eu, BYPASS=a]", "extraArgs: [--use-service-account-credentials=true]",
	} {
		if _, err := DecodeCloudConfiguration("f.yaml", 1, []byte("apiVersion: "+v1alpha1.APIVersion+"\nkind: "+ConfigKind+"\ncontrollerManager: {"+field+"}\n")); err != nil {
			t.Errorf("%s: %v", field, err)
		}
	}
}
