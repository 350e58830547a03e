package v1alpha1

import (
	"strings"
	"testing"
)

const planted = "hunter2hunter2"

// A credential in clear is refused with the way to give it, and the error does not repeat it.
func TestControllerManager_Credentials(t *testing.T) {
	for _, field := range []string{
		"extraEnv: [DB_PASS=" + planted + "]", "extraEnv: ['HTTPS_PROXY=http://u:" + planted + "@p:1']",
		"extraArgs: [--api-token=" + planted + "]", "extraArgs: ['--endpoint=https://u:" + planted + "@c']",
	} {
		_, err := DecodeCloudConfiguration("f.yaml", 1, []byte("apiVersion: "+APIVersion+"\nkind: "+ConfigKind+"\ncontrollerManager: {"+field+"}\n"))
		if err == nil || strings.Contains(err.Error(), planted) || !strings.Contains(err.Error(), "has a credential") {
			t.Errorf("%s: got %v", field, err)
		}
	}
	for _, field := range []string{
		"extraEnv: ['DB_PASS=${credential:db}', 'X_TOKEN=/etc/token', REGION=eu, BYPASS=a]", "extraArgs: [--use-service-account-credentials=true]",
	} {
		if _, err := DecodeCloudConfiguration("f.yaml", 1, []byte("apiVersion: "+APIVersion+"\nkind: "+ConfigKind+"\ncontrollerManager: {"+field+"}\n")); err != nil {
			t.Errorf("%s: %v", field, err)
		}
	}
}

// A record of an earlier release is read, and its credentials are moved; a second time there are none.
func TestConceal(t *testing.T) {
	text := "apiVersion: " + APIVersion + "\nkind: Record\nconfiguration: {controllerManager: {extraEnv: [A=1, DB_PASS=" + planted + "]}}\n"
	got := Conceal(text)
	if strings.Contains(got, planted) || !strings.Contains(got, "DB_PASS=${credential:env-DB_PASS}") || !strings.Contains(got, "A=1") {
		t.Errorf("got %s", got)
	}
	if again := Conceal(got); again != got {
		t.Errorf("a second time: %s", again)
	}
	r, err := DecodeRecord("r", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if moved := r.Configuration.ControllerManager.MoveCredentials(); string(moved["env-DB_PASS"]) != planted || len(moved) != 1 {
		t.Errorf("got %v", moved)
	}
}
