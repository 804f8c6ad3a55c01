import { useEffect, useRef, useState } from 'preact/hooks'
import type { PageState } from '../ui/site.ts'
import { Landscape } from '../ui/Landscape.tsx'
import { peersSentence } from '../ui/sentences.ts'
import { agoText, percentOf, percentText, sizeText, speedText } from '../messages/index.ts'
import { SpeedMeter } from '../transfer-panel/speed-meter.ts'
import { durationText } from '../messages/durations.ts'
import { page } from '../messages/page.ts'
import { useNow } from '../ui/use-now.ts'

/** Interval between updates of the rate and the remaining time, in milliseconds. */
const RATE_MS = 1000
/** A rate that was measured for a shorter time is not shown, in milliseconds. */
const MEASURED_MS = 2000

interface LoadingViewProps {
  state: Exclude<PageState, { kind: 'held' } | { kind: 'locked' } | { kind: 'refused' }>
  filename: string | null
  /** Tabs that have the whole page: the lights in the landscape. */
  holders: number
  /** When the page was last available, by `Date.now()`, where the server keeps that. */
  lastAvailable: number | null
  /** Bytes received from other peers. Restored blocks are not among them, so that they do not count as speed. */
  receivedBytes: number
  /** Whether to show only the progress, below content that is shown already. */
  isBrief?: boolean
}

/** Shown in place of a page that is not completely here. */
export function LoadingView({ state, filename, holders, lastAvailable, receivedBytes, isBrief = false }: LoadingViewProps) {
  return (
    <section class={isBrief ? 'coming brief' : 'coming'} aria-live="polite">
      {isBrief ? <h2>{headline(state, null)}</h2> : <h1>{headline(state, filename)}</h1>}
      {state.kind === 'loading' && (
        <>
          <progress aria-label={page('loading')} max={state.total ?? 1} {...(state.total === null ? {} : { value: state.bytes })} />
          <p aria-live="off">{arrived(state)}</p>
          <Rate received={receivedBytes} missing={state.total === null ? null : Math.max(0, state.total - state.bytes)} />
        </>
      )}
      {state.kind === 'waiting' && (
        <>
          {state.bytes > 0 && state.total !== null && (
            <progress class="resting" aria-label={page('soFar')} max={state.total} value={state.bytes} />
          )}
          <p>{waitingFor(state.bytes, state.total)}</p>
          {lastAvailable !== null && <LastAvailable at={lastAvailable} />}
        </>
      )}
      {!isBrief && <Landscape count={holders} />}
    </section>
  )
}

/** The speed of the load and the time until its end. They change once a second, without an announcement to screen readers. */
function Rate({ received, missing }: { received: number; missing: number | null }) {
  const latest = useRef({ received, missing })
  latest.current = { received, missing }
  const [shown, setShown] = useState<string | null>(null)
  useEffect(() => {
    const meter = new SpeedMeter()
    const startedAt = performance.now()
    const look = () => {
      const now = performance.now()
      meter.note(now, latest.current.received)
      if (now - startedAt >= MEASURED_MS) setShown(rateText(meter.rate, latest.current.missing))
    }
    look()
    const timer = setInterval(look, RATE_MS)
    return () => clearInterval(timer)
  }, [])
  return (
    <p class="rate" aria-live="off">
      {shown}
    </p>
  )
}

/** The rate and the time until `missing` bytes have arrived at it; `null` while nothing arrives. */
export function rateText(rate: number, missing: number | null): string | null {
  if (rate < 1) return null
  const speed = speedText(rate)
  return missing === null ? speed : page('rateLeft', { speed, time: durationText((missing / rate) * 1000) })
}

/** The time since the page was available. It changes without an announcement to screen readers. */
function LastAvailable({ at }: { at: number }) {
  return <p aria-live="off">{page('lastAvailable', { ago: agoText(useNow() - at) })}</p>
}

function headline(state: LoadingViewProps['state'], filename: string | null): string {
  const name = filename ?? page('it')
  switch (state.kind) {
    case 'joining':
      return page('seeking', { name })
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
  const values = { percent: percentText(percentOf(bytes, total)), size, total: sizeText(total) }
  return peers > 0 ? page('arrivedFrom', { ...values, people }) : page('arrived', values)
}

function waitingFor(bytes: number, total: number | null): string {
  const promise = page('promise')
  if (bytes === 0) return promise
  const size = sizeText(bytes)
  return total === null ? page('promiseKept', { size, promise }) : page('promiseKeptOf', { size, total: sizeText(total), promise })
}
