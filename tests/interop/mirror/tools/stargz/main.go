// The stargz snapshotter, and the conversion of a layer to eStargz. The module of the snapshotter's own program is not in
// Go's module proxy, so this is the smallest program around its library.
package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"syscall"

	snapshots "github.com/containerd/containerd/api/services/snapshots/v1"
	"github.com/containerd/containerd/v2/contrib/snapshotservice"
	"github.com/containerd/stargz-snapshotter/estargz"
	"github.com/containerd/stargz-snapshotter/service"
	"github.com/pelletier/go-toml/v2"
	"google.golang.org/grpc"
)

func main() {
	usage := fmt.Errorf("usage: stargz serve SOCKET FOLDER CONFIG.toml | stargz convert LAYER.tar LAYER.esgz [FIRST-FILE...]")
	err := usage
	if len(os.Args) == 5 && os.Args[1] == "serve" {
		err = serve(os.Args[2], os.Args[3], os.Args[4])
	} else if len(os.Args) >= 4 && os.Args[1] == "convert" {
		err = convert(os.Args[2], os.Args[3], os.Args[4:])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// serve answers containerd's requests for snapshots.
func serve(socket, folder, config string) error {
	text, err := os.ReadFile(config)
	if err != nil {
		return err
	}
	var settings service.Config
	if err := toml.Unmarshal(text, &settings); err != nil {
		return err
	}
	snapshotter, err := service.NewStargzSnapshotterService(context.Background(), folder, &settings)
	if err != nil {
		return err
	}
	server := grpc.NewServer()
	snapshots.RegisterSnapshotsServer(server, snapshotservice.FromSnapshotter(snapshotter))
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	go func() {
		<-stop
		server.Stop()
	}()
	if err := server.Serve(listener); err != nil {
		return err
	}
	// It unmounts the layers.
	return snapshotter.Close()
}

// convert writes a layer whose first files are fetched before a container starts. Prints the digest of its table of
// contents, and of its tar.
func convert(from, to string, first []string) error {
	file, err := os.Open(from)
	if err != nil {
		return err
	}
	info, err := file.Stat()
	if err != nil {
		return err
	}
	blob, err := estargz.Build(io.NewSectionReader(file, 0, info.Size()), estargz.WithPrioritizedFiles(first))
	if err != nil {
		return err
	}
	target, err := os.Create(to)
	if err != nil {
		return err
	}
	if _, err := io.Copy(target, blob); err != nil {
		return err
	}
	if err := blob.Close(); err != nil {
		return err
	}
	fmt.Println(blob.TOCDigest(), blob.DiffID())
	return target.Close()
}
