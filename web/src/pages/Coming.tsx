import { useEffect, useState } from 'preact/hooks'
import type { PageState } from '../ui/site.ts'
import { Ridge } from '../ui/Ridge.tsx'
import { peersSentence } from '../ui/sentences.ts'
import { agoText, percentOf, percentText, sizeText } from '../words/index.ts'
import { page } from '../words/page.ts'

/** How often a tab that waits looks at its watch. */
const LOOK_MS = 10_000

interface ComingProps {
  state: Exclude<PageState, { kind: 'held' } | { kind: 'locked' } | { kind: 'refused' }>
  filename: string | null
  /** Tabs that have all of it: the fires on the hills. */
  holders: number
  /** When somebody last had it, by `Date.now()`, where that is known. */
  lastLit: number | null
  /** Only how far it is, below what is shown already. */
  isBrief?: boolean
}

/** What stands in the place of a page that is not all here. */
export function Coming({ state, filename, holders, lastLit, isBrief = false }: ComingProps) {
  return (
    <section class={isBrief ? 'coming brief' : 'coming'} aria-live="polite">
      {isBrief ? <h2>{headline(state, filename)}</h2> : <h1>{headline(state, filename)}</h1>}
      {state.kind === 'loading' && (
        <>
          <progress
            aria-label={page('loading')}
            max={state.total ?? 1}
            {...(state.total === null ? {} : { value: state.bytes })}
          />
          <p aria-live="off">{arrived(state)}</p>
        </>
      )}
      {state.kind === 'waiting' && (
        <>
          {state.bytes > 0 && state.total !== null && (
            <progress class="resting" aria-label={page('soFar')} max={state.total} value={state.bytes} />
          )}
          <p>{waitingFor(state.bytes, state.total)}</p>
          {lastLit !== null && <LastLit at={lastLit} />}
        </>
      )}
      {!isBrief && <Ridge fires={holders} />}
    </section>
  )
}

/** How long ago it was lit, which grows as one waits; nobody is told each time. */
function LastLit({ at }: { at: number }) {
  const [now, setNow] = useState(Date.now)
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), LOOK_MS)
    return () => clearInterval(timer)
  }, [])
  return <p aria-live="off">{page('lastLit', { ago: agoText(now - at) })}</p>
}

function headline(state: ComingProps['state'], filename: string | null): string {
  const name = filename ?? page('it')
  switch (state.kind) {
    case 'joining':
      return page('looking', { name })
    case 'loading':
      return page('fetching', { name })
    case 'waiting':
      return state.bytes > 0 ? page('lastLeft') : page('waitingFor', { name })
  }
}

function arrived({ bytes, total, peers, direct, nodes }: Extract<PageState, { kind: 'loading' }>): string {
  const size = sizeText(bytes)
  const people = peersSentence(peers, direct, nodes)
  if (total === null) return peers > 0 ? page('arrivedSome', { size, people }) : size
  const told = { percent: percentText(percentOf(bytes, total)), size, total: sizeText(total) }
  return peers > 0 ? page('arrivedFrom', { ...told, people }) : page('arrived', told)
}

function waitingFor(bytes: number, total: number | null): string {
  const promise = page('promise')
  if (bytes === 0) return promise
  const size = sizeText(bytes)
  return total === null ? page('promiseKept', { size, promise }) : page('promiseKeptOf', { size, total: sizeText(total), promise })
}
