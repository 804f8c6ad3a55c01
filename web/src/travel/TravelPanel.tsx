import '../style/travel.css'
import { useEffect, useRef, useState } from 'preact/hooks'
import type { PageSession, Traffic } from '../ui/site.ts'
import type { BlockMap, PageState, PageSession as Swarm, PeerView } from '../swarm/index.ts'
import { sizeText, speedText } from '../words/index.ts'
import { panel } from '../words/panel.ts'
import { Paces, type Pair } from './pace.ts'
import { Strip } from './Strip.tsx'
import { hasText, missingSentence, rarestSentence, ratioSentence, reachSentence, wayOf } from './tell.ts'

/** How often the panel looks. Nothing on it is read aloud by itself: who wants to know goes there. */
const LOOK_MS = 1000
/** The tab's own pace, among those of its peers, whose names have sixteen digits. */
const OWN = ''

interface Seen {
  readonly state: PageState
  readonly map: BlockMap | null
  readonly paces: Paces
}

/** How a page travels: where its blocks are, whom this tab meets and how, what moves. */
export function TravelPanel({ session, onClose }: { session: PageSession; onClose: () => void }) {
  const seen = useLook(session.swarm.value)
  const title = useRef<HTMLHeadingElement>(null)
  useEffect(() => title.current?.focus(), [])
  return (
    <section
      class="travel"
      aria-labelledby="travel-title"
      onKeyDown={(event) => {
        if (event.key !== 'Escape') return
        event.stopPropagation()
        onClose()
      }}
    >
      <header class="bar">
        <h2 id="travel-title" ref={title} tabIndex={-1}>
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

/** Looks at once, and then every second. */
function useLook(swarm: Swarm | null): Seen | null {
  const [seen, setSeen] = useState<Seen | null>(null)
  const paces = useRef(new Paces())
  useEffect(() => {
    if (swarm === null) return
    const look = () => {
      const { state } = swarm
      const pairs = new Map<string, Pair>(state.peers.map((peer) => [peer.id, peer]))
      paces.current.note(performance.now(), pairs.set(OWN, state))
      setSeen({ state, map: swarm.blockMap(), paces: paces.current })
    }
    look()
    const timer = setInterval(look, LOOK_MS)
    return () => clearInterval(timer)
  }, [swarm])
  return seen
}

function Look({ seen: { state, map, paces } }: { seen: Seen }) {
  const total = state.progress.blocksTotal
  return (
    <>
      <div>
        <h3>{panel('blocks')}</h3>
        {map === null || map.here.length === 0 ? <p>{panel('unknown')}</p> : <Blocks map={map} isGuessed={state.peers.some(({ have }) => have === 'some')} />}
      </div>
      <div>
        <h3>{panel('moved')}</h3>
        <dl class="paces">
          <Moved way={panel('down')} pace={paces.of(OWN).down} bytes={state.receivedBytes} />
          <Moved way={panel('up')} pace={paces.of(OWN).up} bytes={state.sentBytes} />
        </dl>
        <p>{ratioSentence(state satisfies Traffic)}</p>
      </div>
      <div>
        <h3>{panel('peers')}</h3>
        {state.peers.length > 0 ? <Peers peers={state.peers} total={total} paces={paces} /> : <p>{panel(nobody(state))}</p>}
        {state.peersDropped > 0 && <p>{panel('dropped', { count: state.peersDropped })}</p>}
      </div>
    </>
  )
}

function nobody({ presence }: PageState): 'alone' | 'offline' {
  return presence.kind === 'joined' ? 'alone' : 'offline'
}

/** `isGuessed`: whether somebody has a part, of which others know only what they were told. */
function Blocks({ map, isGuessed }: { map: BlockMap; isGuessed: boolean }) {
  const rarest = rarestSentence(map)
  const missing = missingSentence(map)
  return (
    <>
      <Strip map={map} />
      {missing !== null && <p class="missing">{missing}</p>}
      {rarest !== null && (
        <p>
          {rarest} {isGuessed && <span class="small">{panel('asTold')}</span>}
        </p>
      )}
    </>
  )
}

function Moved({ way, pace, bytes }: { way: string; pace: number; bytes: number }) {
  return (
    <div>
      <dt>{way}</dt>
      <dd>
        <b>{panel('now', { speed: speedText(pace) })}</b> {panel('inAll', { size: sizeText(bytes) })}
      </dd>
    </div>
  )
}

function Peers({ peers, total, paces }: { peers: readonly PeerView[]; total: number | null; paces: Paces }) {
  return (
    <div class="peers" role="region" aria-label={panel('peers')} tabIndex={0}>
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
            <PeerRow key={peer.id} peer={peer} total={total} pace={paces.of(peer.id)} />
          ))}
        </tbody>
      </table>
    </div>
  )
}

function PeerRow({ peer, total, pace }: { peer: PeerView; total: number | null; pace: { down: number; up: number } }) {
  const { id, reach, receivedBytes, sentBytes } = peer
  const way = wayOf(peer)
  return (
    <tr>
      <th scope="row">
        <code translate={false}>{id.slice(0, 4)}</code>
      </th>
      <td data-of={panel('has')}>{hasText(peer, total)}</td>
      <td data-of={panel('down')}>
        {sizeText(receivedBytes)}
        {pace.down > 0 && <small>{speedText(pace.down)}</small>}
      </td>
      <td data-of={panel('up')}>
        {sizeText(sentBytes)}
        {pace.up > 0 && <small>{speedText(pace.up)}</small>}
      </td>
      <td class="how">
        <b class={way}>{panel(way)}</b> <small>{reachSentence(reach)}</small>
      </td>
    </tr>
  )
}
