import { effect } from '@preact/signals'
import type { PageDeps, SendToPeer } from '@watchfire/pages/swarm'
import type { ReadablePage } from '@watchfire/pages/encryption'
import type { PageSession } from '../ui/site.ts'
import type { Crowd } from './crowd.ts'

type PeerId = Parameters<SendToPeer>[0]

/** The crowds of the pages that are open in this tab, by CID. A page has one once it is shown and its code is here. */
export const crowds = new Map<string, Crowd>()
/** Sends messages to the peers of the pages that are open in this tab, by CID. */
const senders = new Map<string, SendToPeer>()

/** For `PageDeps.peers`. This tab ignores messages of peers until it is ready: it tells them its own history then, and they answer. */
export const meetCrowd: NonNullable<PageDeps['peers']> = (cid, send) => {
  senders.set(cid, send)
  return (peer, message) => crowds.get(cid)?.receive(peer, message)
}

/** Follows the viewers of a page until the returned function is called. The code is loaded once the page is shown. */
export function followCrowd(page: ReadablePage, { state, counts }: Pick<PageSession, 'state' | 'counts'>): () => void {
  const cid = page.root
  const sender = senders.get(cid)
  let stop: (() => void) | null = null
  let isBegun = false
  let isOver = false
  const stopWaiting = effect(() => {
    const { value: shown } = state
    // A page that nobody has whole is not lit.
    if (isBegun || (shown.kind !== 'locked' && !('content' in shown && shown.content)) || !counts.value?.holders) return
    isBegun = true
    import('./index.ts').then(
      ({ Crowd }) => {
        if (isOver) return
        const peers = () => page.state.peers.filter(({ kind }) => kind === 'tab').map(({ id }) => id as PeerId)
        const crowd = new Crowd(cid, peers, (peer, message) => senders.get(cid)?.(peer, message))
        crowds.set(cid, crowd)
        const unsubscribe = counts.subscribe((now) => crowd.note(now === null ? 0 : now.watching - (now.nodes?.watching ?? 0)))
        stop = () => {
          unsubscribe()
          crowd.stop()
          // The page may be open again already.
          if (crowds.get(cid) === crowd) crowds.delete(cid)
        }
      },
      // Without it, the page has all but its history.
      () => {},
    )
  })
  return () => {
    isOver = true
    stopWaiting()
    stop?.()
    if (senders.get(cid) === sender) senders.delete(cid)
  }
}
