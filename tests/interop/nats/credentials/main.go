// Writes the accounts of a NATS server that accepts credentials files only: `server.conf` for the server,
// and `user.creds` for its clients.
package main

import (
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"
)

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: credentials FOLDER")
	}
	if err := write(os.Args[1]); err != nil {
		log.Fatal(err)
	}
}

func write(folder string) error {
	operator, operatorKey, err := keyPair(nkeys.CreateOperator)
	if err != nil {
		return err
	}
	account, accountKey, err := keyPair(nkeys.CreateAccount)
	if err != nil {
		return err
	}
	user, userKey, err := keyPair(nkeys.CreateUser)
	if err != nil {
		return err
	}
	operatorToken, err := jwt.NewOperatorClaims(operatorKey).Encode(operator)
	if err != nil {
		return err
	}
	accountToken, err := jwt.NewAccountClaims(accountKey).Encode(operator)
	if err != nil {
		return err
	}
	userToken, err := jwt.NewUserClaims(userKey).Encode(account)
	if err != nil {
		return err
	}
	seed, err := user.Seed()
	if err != nil {
		return err
	}
	credentials, err := jwt.FormatUserConfig(userToken, seed)
	if err != nil {
		return err
	}
	server := fmt.Sprintf("operator: %s\nresolver: MEMORY\nresolver_preload: { %s: %s }\n", operatorToken, accountKey, accountToken)
	if err := os.WriteFile(filepath.Join(folder, "server.conf"), []byte(server), 0o600); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, "user.creds"), credentials, 0o600)
}

// Returns new keys, and the public one as text.
func keyPair(create func() (nkeys.KeyPair, error)) (nkeys.KeyPair, string, error) {
	keys, err := create()
	if err != nil {
		return nil, "", err
	}
	public, err := keys.PublicKey()
	return keys, public, err
}
