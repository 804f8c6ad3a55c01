import type { PageState } from '../ui/site.ts'
import { percentOf, sizeText } from '../ui/sizes.ts'
import { Ridge } from '../ui/Ridge.tsx'
import { peersSentence } from '../ui/sentences.ts'

interface ComingProps {
  state: Exclude<PageState, { kind: 'held' } | { kind: 'refused' }>
  filename: string | null
  /** Tabs that have all of it: the fires on the hills. */
  holders: number
}

/** What stands in the place of a page that is not all here. */
export function Coming({ state, filename, holders }: ComingProps) {
  return (
    <section class="coming" aria-live="polite">
      <h1>{headline(state, filename)}</h1>
      {state.kind === 'loading' && (
        <>
          <progress
            aria-label="Loading"
            max={state.total ?? 1}
            {...(state.total === null ? {} : { value: state.bytes })}
          />
          <p aria-live="off">{arrived(state)}</p>
        </>
      )}
      {state.kind === 'waiting' && (
        <>
          {state.bytes > 0 && state.total !== null && (
            <progress class="resting" aria-label="Loaded so far" max={state.total} value={state.bytes} />
          )}
          <p>{waitingFor(state.bytes, state.total)}</p>
        </>
      )}
      <Ridge fires={holders} />
    </section>
  )
}

function headline(state: ComingProps['state'], filename: string | null): string {
  const it = filename ?? 'the page'
  switch (state.kind) {
    case 'joining':
      return `Looking for who has ${it}…`
    case 'loading':
      return `Fetching ${it}`
    case 'waiting':
      return state.bytes > 0 ? 'The last one who had it has left' : `Waiting for somebody who has ${it}`
  }
}

function arrived({ bytes, total, peers, direct }: Extract<PageState, { kind: 'loading' }>): string {
  const from = peers > 0 ? `, ${peersSentence(peers, direct)}` : ''
  if (total === null) return `${sizeText(bytes)}${from}`
  return `${percentOf(bytes, total)}% · ${sizeText(bytes)} of ${sizeText(total)}${from}`
}

function waitingFor(bytes: number, total: number | null): string {
  const promise = 'Leave this tab open: it lights up by itself as soon as somebody with it comes back.'
  if (bytes === 0) return promise
  const kept = total === null ? sizeText(bytes) : `${sizeText(bytes)} of ${sizeText(total)}`
  return `${kept} came before that and is kept here. ${promise}`
}
