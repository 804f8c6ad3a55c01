package main

import (
	"context"
	"encoding/json"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ipfs/go-cid"
	"github.com/libp2p/go-libp2p-core/host"
	"github.com/libp2p/go-libp2p-core/peer"
	swarm "github.com/libp2p/go-libp2p-swarm"
)

// noRouting finds nobody: nodes know each other from the lab.
type noRouting struct{}

func (noRouting) Provide(context.Context, cid.Cid, bool) error { return nil }

func (noRouting) FindProvidersAsync(context.Context, cid.Cid, int) <-chan peer.AddrInfo {
	none := make(chan peer.AddrInfo)
	close(none)
	return none
}

// forgetFailures lets the host dial a peer again without a wait.
func forgetFailures(host host.Host, id peer.ID) {
	if network, ok := host.Network().(*swarm.Swarm); ok {
		network.Backoff().Clear(id)
	}
}

var output = struct {
	sync.Mutex
	*json.Encoder
}{Encoder: json.NewEncoder(os.Stdout)}

// tell writes an event. When the lab no longer reads, the node ends soon too.
func tell(event map[string]any) {
	output.Lock()
	defer output.Unlock()
	_ = output.Encode(event)
}

// progress tells the bytes that have arrived: the first ones immediately, then in an interval.
type progress struct {
	bytes atomic.Int64
	first sync.Once
	done  chan struct{}
}

func newProgress() *progress {
	p := &progress{done: make(chan struct{})}
	go func() {
		ticker := time.NewTicker(progressInterval)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				p.tell()
			case <-p.done:
				return
			}
		}
	}()
	return p
}

func (p *progress) add(bytes int) {
	p.bytes.Add(int64(bytes))
	p.first.Do(p.tell)
}

func (p *progress) tell() {
	if bytes := p.bytes.Load(); bytes > 0 {
		tell(map[string]any{"event": "progress", "bytes": bytes})
	}
}

func (p *progress) end() { close(p.done) }
