// olareg, a registry with the referrers API, as the tests build it. Its checksums are in go.sum.
module watchfire.invalid/olareg

go 1.26.8

tool github.com/olareg/olareg/cmd/olareg

require (
	github.com/goccy/go-yaml v1.19.2 // indirect
	github.com/inconshreveable/mousetrap v1.1.0 // indirect
	github.com/olareg/olareg v0.2.2 // indirect
	github.com/spf13/cobra v1.10.2 // indirect
	github.com/spf13/pflag v1.0.10 // indirect
	github.com/sudo-bmitch/oci-digest v0.1.2 // indirect
	golang.org/x/crypto v0.53.0 // indirect
)
