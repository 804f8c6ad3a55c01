// Bitswap 1.1 as it was in October 2019, before HAVE: the code of go-bitswap 0.1.8, as a peer of the lab.
//
//	go-bitswap seed     shares the files of LAB_PATHS
//	go-bitswap fetch    fetches the CIDs of LAB_NAMES from the nodes of LAB_PEERS, and serves on
package main

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	bitswap "github.com/ipfs/go-bitswap"
	"github.com/ipfs/go-bitswap/network"
	"github.com/ipfs/go-blockservice"
	"github.com/ipfs/go-cid"
	"github.com/ipfs/go-datastore/mount"
	flatfs "github.com/ipfs/go-ds-flatfs"
	blockstore "github.com/ipfs/go-ipfs-blockstore"
	chunker "github.com/ipfs/go-ipfs-chunker"
	ipld "github.com/ipfs/go-ipld-format"
	"github.com/ipfs/go-merkledag"
	"github.com/ipfs/go-unixfs/importer/balanced"
	"github.com/ipfs/go-unixfs/importer/helpers"
	"github.com/libp2p/go-libp2p"
	"github.com/libp2p/go-libp2p-core/crypto"
	"github.com/libp2p/go-libp2p-core/host"
	"github.com/libp2p/go-libp2p-core/peer"
	"github.com/multiformats/go-multiaddr"
)

const (
	port = 4001
	// Nodes start together, so a node that is dialed may not listen yet.
	dialTimeout = 10 * time.Second
	// The interval of the events that tell the progress.
	progressInterval = 100 * time.Millisecond
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "go-bitswap:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) != 1 || (args[0] != "seed" && args[0] != "fetch") {
		return fmt.Errorf("cannot run %q: the command is seed or fetch", args)
	}
	node, err := start()
	if err != nil {
		return err
	}
	if args[0] == "seed" {
		err = node.seed(ctx)
	} else {
		err = node.fetch(ctx)
	}
	if err != nil && ctx.Err() == nil {
		return err
	}
	<-ctx.Done()
	return node.stop()
}

// A node: its host, its blocks on the disk as kubo stores them, and its exchange.
type node struct {
	host     host.Host
	store    *flatfs.Datastore
	exchange *bitswap.Bitswap
	blocks   blockservice.BlockService
}

func start() (*node, error) {
	address := os.Getenv("LAB_ADDRESS")
	key, err := identity(address)
	if err != nil {
		return nil, err
	}
	host, err := libp2p.New(context.Background(), libp2p.Identity(key), libp2p.ListenAddrStrings(listen(address)))
	if err != nil {
		return nil, fmt.Errorf("cannot listen on %s, the address of LAB_ADDRESS: %w", listen(address), err)
	}
	folder := filepath.Join(os.Getenv("LAB_FOLDER"), "blocks")
	store, err := flatfs.CreateOrOpen(folder, flatfs.NextToLast(2), false)
	if err != nil {
		return nil, fmt.Errorf("cannot open %s: %w", folder, err)
	}
	// A block store puts its keys below this prefix, and flatfs takes keys of one part.
	mounted := mount.New([]mount.Mount{{Prefix: blockstore.BlockPrefix, Datastore: store}})
	blocks := blockstore.NewBlockstore(mounted)
	exchange := bitswap.New(context.Background(), network.NewFromIpfsHost(host, noRouting{}), blocks)
	return &node{host, store, exchange.(*bitswap.Bitswap), blockservice.New(blocks, exchange)}, nil
}

// identity is derived from the address, so that nodes know each other's identity before they start.
func identity(address string) (crypto.PrivKey, error) {
	seed := sha256.Sum256([]byte(address))
	key, _, err := crypto.GenerateEd25519Key(&repeated{seed[:]})
	return key, err
}

// repeated reads the same bytes again and again.
type repeated struct{ bytes []byte }

func (r *repeated) Read(into []byte) (int, error) { return copy(into, r.bytes), nil }

func listen(address string) string { return fmt.Sprintf("/ip4/%s/tcp/%d", address, port) }

func (n *node) seed(ctx context.Context) error {
	var paths []string
	if err := json.Unmarshal([]byte(os.Getenv("LAB_PATHS")), &paths); err != nil {
		return fmt.Errorf("cannot read LAB_PATHS: %w", err)
	}
	for _, path := range paths {
		root, err := n.add(path)
		if err != nil {
			return fmt.Errorf("cannot share %s: %w", path, err)
		}
		tell(map[string]any{"event": "shared", "cid": root.String(), "address": os.Getenv("LAB_ADDRESS")})
	}
	return nil
}

// add stores a file with the blocks that `ipfs add` makes without options.
func (n *node) add(path string) (cid.Cid, error) {
	file, err := os.Open(path)
	if err != nil {
		return cid.Undef, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return cid.Undef, err
	}
	if info.IsDir() {
		return cid.Undef, errors.New("it is a folder, and only files are shared")
	}
	dag := ipld.NewBufferedDAG(context.Background(), merkledag.NewDAGService(n.blocks))
	params := helpers.DagBuilderParams{Maxlinks: helpers.DefaultLinksPerBlock, Dagserv: dag}
	builder, err := params.New(chunker.NewSizeSplitter(file, chunker.DefaultBlockSize))
	if err != nil {
		return cid.Undef, err
	}
	root, err := balanced.Layout(builder)
	if err != nil {
		return cid.Undef, err
	}
	return root.Cid(), dag.Commit()
}

func (n *node) fetch(ctx context.Context) error {
	var names, peers []string
	for name, into := range map[string]*[]string{"LAB_NAMES": &names, "LAB_PEERS": &peers} {
		if err := json.Unmarshal([]byte(os.Getenv(name)), into); err != nil {
			return fmt.Errorf("cannot read %s: %w", name, err)
		}
	}
	if err := n.connect(ctx, peers); err != nil {
		return err
	}
	for _, name := range names {
		root, err := cid.Decode(name)
		if err != nil {
			return fmt.Errorf("cannot read the CID %q: %w", name, err)
		}
		if err := n.fetchOne(ctx, root); err != nil {
			return fmt.Errorf("cannot fetch %s: %w", root, err)
		}
		tell(map[string]any{"event": "held"})
	}
	return nil
}

// connect dials all peers together, and waits until each is connected.
func (n *node) connect(ctx context.Context, addresses []string) error {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	results := make(chan error, len(addresses))
	for _, address := range addresses {
		go func() { results <- n.dial(ctx, address) }()
	}
	for range addresses {
		if err := <-results; err != nil {
			return err
		}
	}
	return nil
}

func (n *node) dial(ctx context.Context, address string) error {
	key, err := identity(address)
	if err != nil {
		return err
	}
	id, err := peer.IDFromPrivateKey(key)
	if err != nil {
		return err
	}
	at, err := multiaddr.NewMultiaddr(listen(address))
	if err != nil {
		return fmt.Errorf("cannot dial %q: %w", address, err)
	}
	for {
		err := n.host.Connect(ctx, peer.AddrInfo{ID: id, Addrs: []multiaddr.Multiaddr{at}})
		if err == nil {
			return nil
		}
		// The host waits longer and longer before it dials again, and this is only about a start.
		forgetFailures(n.host, id)
		select {
		case <-ctx.Done():
			return fmt.Errorf("cannot dial %s: %w", at, err)
		case <-time.After(progressInterval):
		}
	}
}

// fetchOne requests all blocks of a level of the tree together, level after level, as the lab that measured
// this version did.
func (n *node) fetchOne(ctx context.Context, root cid.Cid) error {
	progress := newProgress()
	defer progress.end()
	session := blockservice.NewSession(ctx, n.blocks)
	level := []cid.Cid{root}
	for len(level) > 0 {
		var below []cid.Cid
		missing := len(level)
		for block := range session.GetBlocks(ctx, level) {
			missing--
			decoded, err := ipld.Decode(block)
			if err != nil {
				return err
			}
			if len(decoded.Links()) == 0 {
				progress.add(len(block.RawData()))
			}
			for _, link := range decoded.Links() {
				below = append(below, link.Cid)
			}
		}
		if missing > 0 {
			return fmt.Errorf("%d blocks are missing: %w", missing, ctx.Err())
		}
		level = below
	}
	return nil
}

func (n *node) stop() error {
	stat, err := n.exchange.Stat()
	if err != nil {
		return err
	}
	tell(map[string]any{
		"event":      "stopped",
		"sent_bytes": stat.DataSent,
		"exchange": map[string]any{
			"duplicate_bytes":   stat.DupDataReceived,
			"received_messages": stat.MessagesReceived,
		},
	})
	return n.store.Close()
}
