import '../style/page.css'
import { useEffect, useMemo } from 'preact/hooks'
import { DirectoryView, FileView } from '../render/index.ts'
import { stayAwakeFor } from '../ui/awake.ts'
import type { Hearth } from '../ui/hearth.ts'
import type { Route } from '../ui/route.ts'
import type { Mine } from '../ui/sentences.ts'
import type { PageState } from '../ui/site.ts'
import { percentOf } from '../words/index.ts'
import type { Fire } from '../ui/tab.ts'
import { wearFace } from '../ui/tab.ts'
import { tabTitle } from '../ui/title.ts'
import { Coming } from './Coming.tsx'
import { FirePanel } from './FirePanel.tsx'
import { Refused } from './Refused.tsx'

interface PageViewProps {
  place: Extract<Route, { kind: 'page' }>
  hearth: Hearth
}

/** One page: how its fire stands, and below it what it says. */
export function PageView({ place, hearth }: PageViewProps) {
  const page = useMemo(() => hearth.open(place.cid, place.filename), [hearth, place.cid])
  useEffect(() => () => hearth.lookAway(place.cid), [hearth, place.cid])
  useEffect(() => stayAwakeFor(hearth), [hearth])
  const { session } = page
  const state = session.state.value
  const counts = session.counts.value
  const filename = place.filename ?? page.filename
  const fire = fireOf(state)
  const title = tabTitle({
    fire,
    name: place.file ?? filename,
    percent: percentOfState(state),
    watching: counts?.watching ?? null,
  })
  useEffect(() => wearFace(title, fire), [title, fire])

  if (state.kind === 'refused') return <Refused cid={place.cid} reason={state.reason} />
  return (
    <div class="page">
      <FirePanel page={page} fire={fire} mine={mineOf(state)} title={filename ?? title} />
      {session.trouble.value !== null && (
        <p class="notice" role="status">
          {session.trouble.value}
        </p>
      )}
      {state.kind !== 'held' && (
        <Coming state={state} filename={filename} holders={counts?.holders ?? 0} lastLit={session.lastLit.value} />
      )}
      {state.kind === 'held' && state.content.kind === 'file' && (
        <FileView name={filename} file={state.content} />
      )}
      {state.kind === 'held' && state.content.kind === 'directory' && (
        <DirectoryView files={state.content.files} open={place.file} />
      )}
    </div>
  )
}

function fireOf(state: PageState): Fire {
  switch (state.kind) {
    case 'joining':
    case 'loading':
      return 'kindling'
    case 'held':
      return 'lit'
    case 'waiting':
    case 'refused':
      return 'dark'
  }
}

function mineOf(state: PageState): Mine {
  switch (state.kind) {
    case 'held':
      return 'all'
    case 'loading':
    case 'waiting':
      return state.bytes > 0 ? 'some' : 'none'
    case 'joining':
    case 'refused':
      return 'none'
  }
}

function percentOfState(state: PageState): number | null {
  if (state.kind !== 'loading' || state.total === null) return null
  return percentOf(state.bytes, state.total)
}
