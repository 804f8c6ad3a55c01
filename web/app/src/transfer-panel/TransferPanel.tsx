import '../style/transfer-panel.css'
import { useEffect, useRef, useState } from 'preact/hooks'
import type { PageSession, Traffic } from '../ui/site.ts'
import type { BlockMap, PageState, PageSession as Swarm, PeerStatus } from '@watchfire/pages/swarm'
import { sizeText, speedText } from '../messages/index.ts'
import { panel } from '../messages/panel.ts'
import { peerName } from '../names/peer-name.ts'
import { SpeedMeters, type ByteCounts } from './speed-meter.ts'
import { BlockBar } from './BlockBar.tsx'
import { hasText, missingSentence, rarestSentence, ratioSentence, directSentence, pathOf } from './sentences.ts'

/** The interval between updates of the panel. Screen readers do not announce updates. */
const LOOK_MS = 1000
/** The key of this tab's own speed. The ids of peers have sixteen digits. */
const OWN = ''

interface Seen {
  readonly state: PageState
  readonly map: BlockMap | null
  readonly speeds: SpeedMeters
}

/** Shows how a page is transferred: where its blocks are, the peers and their connections, and how many bytes move. */
export function TransferPanel({ session, onClose }: { session: PageSession; onClose: () => void }) {
  const seen = useLook(session.swarm.value)
  const title = useRef<HTMLHeadingElement>(null)
  useEffect(() => title.current?.focus(), [])
  return (
    <section
      class="transfers"
      aria-labelledby="transfers-title"
      onKeyDown={(event) => {
        if (event.key !== 'Escape') return
        event.stopPropagation()
        onClose()
      }}
    >
      <header class="bar">
        <h2 id="transfers-title" ref={title} tabIndex={-1}>
          {panel('title')}
        </h2>
        <button type="button" class="quiet" onClick={onClose}>
          {panel('close')}
        </button>
      </header>
      {seen === null ? <p class="fetching" aria-busy="true" /> : <Look seen={seen} />}
    </section>
  )
}

/** The state now, updated every second. */
function useLook(swarm: Swarm | null): Seen | null {
  const [seen, setSeen] = useState<Seen | null>(null)
  const speeds = useRef(new SpeedMeters())
  useEffect(() => {
    if (swarm === null) return
    const look = () => {
      const { state } = swarm
      const pairs = new Map<string, ByteCounts>(state.peers.map((peer) => [peer.id, peer]))
      speeds.current.note(performance.now(), pairs.set(OWN, state))
      setSeen({ state, map: swarm.blockMap(), speeds: speeds.current })
    }
    look()
    const timer = setInterval(look, LOOK_MS)
    return () => clearInterval(timer)
  }, [swarm])
  return seen
}

function Look({ seen: { state, map, speeds } }: { seen: Seen }) {
  const total = state.progress.blocksTotal
  return (
    <>
      <div>
        <h3>{panel('blocks')}</h3>
        {map === null || map.here.length === 0 ? (
          <p>{panel('unknown')}</p>
        ) : (
          <Blocks map={map} isGuessed={state.peers.some(({ have }) => have === 'some')} />
        )}
      </div>
      <div>
        <h3>{panel('moved')}</h3>
        <dl class="speeds">
          <Moved way={panel('down')} speed={speeds.of(OWN).down} bytes={state.receivedBytes} />
          <Moved way={panel('up')} speed={speeds.of(OWN).up} bytes={state.sentBytes} />
        </dl>
        <p>{ratioSentence(state satisfies Traffic)}</p>
      </div>
      <div>
        <h3>{panel('peers')}</h3>
        {state.peers.length > 0 ? <Peers peers={state.peers} total={total} speeds={speeds} /> : <p>{panel(emptyText(state))}</p>}
        {state.peersDropped > 0 && <p>{panel('dropped', { count: state.peersDropped })}</p>}
      </div>
    </>
  )
}

function emptyText({ presence }: PageState): 'alone' | 'offline' {
  return presence.kind === 'joined' ? 'alone' : 'offline'
}

/** `isGuessed`: whether a peer has a part of the page, of which only announcements are known. */
function Blocks({ map, isGuessed }: { map: BlockMap; isGuessed: boolean }) {
  const rarest = rarestSentence(map)
  const missing = missingSentence(map)
  return (
    <>
      <BlockBar map={map} />
      {missing !== null && <p class="missing">{missing}</p>}
      {rarest !== null && (
        <p>
          {rarest} {isGuessed && <span class="small">{panel('asTold')}</span>}
        </p>
      )}
    </>
  )
}

function Moved({ way, speed, bytes }: { way: string; speed: number; bytes: number }) {
  return (
    <div>
      <dt>{way}</dt>
      <dd>
        <b>{panel('now', { speed: speedText(speed) })}</b> {panel('inAll', { size: sizeText(bytes) })}
      </dd>
    </div>
  )
}

function Peers({ peers, total, speeds }: { peers: readonly PeerStatus[]; total: number | null; speeds: SpeedMeters }) {
  return (
    <section class="peers" aria-label={panel('peers')} tabIndex={0}>
      <table>
        <thead>
          <tr>
            <th scope="col">{panel('peer')}</th>
            <th scope="col">{panel('has')}</th>
            <th scope="col">{panel('down')}</th>
            <th scope="col">{panel('up')}</th>
            <th scope="col">{panel('path')}</th>
          </tr>
        </thead>
        <tbody>
          {peers.map((peer) => (
            <PeerRow key={peer.id} peer={peer} total={total} speed={speeds.of(peer.id)} />
          ))}
        </tbody>
      </table>
    </section>
  )
}

function PeerRow({ peer, total, speed }: { peer: PeerStatus; total: number | null; speed: { down: number; up: number } }) {
  const { id, direct, receivedBytes, sentBytes } = peer
  const way = pathOf(peer)
  return (
    <tr>
      <th scope="row">
        <span title={id} translate={false}>
          {peerName(id)}
        </span>
      </th>
      <td data-of={panel('has')}>{hasText(peer, total)}</td>
      <td data-of={panel('down')}>
        {sizeText(receivedBytes)}
        {speed.down > 0 && <small>{speedText(speed.down)}</small>}
      </td>
      <td data-of={panel('up')}>
        {sizeText(sentBytes)}
        {speed.up > 0 && <small>{speedText(speed.up)}</small>}
      </td>
      <td class="how">
        <b class={way}>{panel(way)}</b> <small>{directSentence(direct)}</small>
      </td>
    </tr>
  )
}
