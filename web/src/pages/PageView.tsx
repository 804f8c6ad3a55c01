import '../style/page.css'
import { useEffect, useMemo } from 'preact/hooks'
import { parseCid } from '../content/index.ts'
import { DirectoryView, FileView, indexOf, playedKind, useUnnamedPlays } from '../render/index.ts'
import { isPage, siteOrigin } from '../sites/index.ts'
import { openTap } from '../tap/index.ts'
import { stayAwakeFor } from '../ui/awake.ts'
import type { Hearth } from '../ui/hearth.ts'
import { restate } from '../ui/restate.ts'
import type { Route } from '../ui/route.ts'
import { pageAddress } from '../ui/route.ts'
import type { Mine } from '../ui/sentences.ts'
import type { PageContent, PageState, Trouble } from '../ui/site.ts'
import { percentOf } from '../words/index.ts'
import { page as words, refusalOf } from '../words/page.ts'
import type { Fire } from '../ui/tab.ts'
import { wearFace } from '../ui/tab.ts'
import { tabTitle } from '../ui/title.ts'
import { Coming } from './Coming.tsx'
import { FirePanel } from './FirePanel.tsx'
import { Locked } from './Locked.tsx'
import { Refused } from './Refused.tsx'
import { ReportLink } from './ReportLink.tsx'

interface PageViewProps {
  place: Extract<Route, { kind: 'page' }>
  hearth: Hearth
  /** See `Site.sitesBelow`. */
  sitesBelow: string | null
  /** Where pages are reported, if anywhere. */
  report: string | null
}

/** One page: how its fire stands, and below it what it says. */
export function PageView({ place, hearth, sitesBelow, report }: PageViewProps) {
  const page = useMemo(() => hearth.open(place.cid, place.filename, place.key), [hearth, place.cid, place.key])
  useEffect(() => () => hearth.lookAway(place.cid), [hearth, place.cid])
  useEffect(() => stayAwakeFor(hearth), [hearth])
  const { session } = page
  const state = session.state.value
  const counts = session.counts.value
  const key = session.key.value
  const filename = place.filename ?? page.filename ?? session.name.value
  const fire = fireOf(state)
  const title = tabTitle({
    fire,
    name: place.file ?? filename,
    percent: percentOfState(state),
    watching: counts && counts.watching - (counts.nodes?.watching ?? 0),
  })
  useEffect(() => wearFace(title, fire), [title, fire])
  useEffect(() => {
    // Opened here before by a longer link: that is the one to pass on.
    if (key !== null && place.key === null) restate(pageAddress(place.cid, filename, key))
  }, [key, place.key])

  const played = playedKind(place.file ?? filename)
  useEffect(() => {
    const isWanted = played !== null || place.file !== null
    if (!isWanted || session.state.peek().kind === 'held') return
    const stop = new AbortController()
    // The worker starts, and the first blocks come, while the player is still to be drawn.
    if (played !== null) void openTap()
    session.expect?.(place.file ?? '', played === null, stop.signal)
    return () => stop.abort()
  }, [session, played?.mime, place.file])

  const unnamed = filename === null && 'content' in state && state.content?.kind === 'file' ? state.content.streamed : undefined
  const unnamedPlays = useUnnamedPlays(unnamed)

  if (state.kind === 'refused') return <Refused cid={place.cid} reason={state.reason} />
  const origin = originOf(place.cid, sitesBelow)
  const content = state.kind === 'held' ? state.content : early(state, place.file, filename, unnamedPlays, origin)
  const coming = state.kind === 'locked' ? state.coming : state.kind === 'held' ? null : state
  return (
    <div class="page">
      <FirePanel page={page} fire={fire} mine={mineOf(state)} title={filename ?? title} link={location.href} />
      {session.trouble.value !== null && (
        <p class="notice" role="status">
          {troubleSentence(session.trouble.value)}
        </p>
      )}
      {key !== null && <p class="small sealed">{words('sealed')}</p>}
      {state.kind === 'locked' && <Locked cid={place.cid} filename={filename} reason={state.reason} />}
      {coming !== null && content === null && (
        <Coming
          state={coming}
          filename={filename}
          holders={counts?.holders ?? 0}
          lastLit={session.lastLit.value}
          isBrief={state.kind === 'locked'}
        />
      )}
      {content?.kind === 'file' && <FileView name={filename} file={content} />}
      {content?.kind === 'directory' && (
        <DirectoryView files={content.files} open={place.file} name={filename ?? 'page'} origin={origin} />
      )}
      {coming !== null && content !== null && (
        <Coming
          state={coming}
          filename={filename}
          holders={counts?.holders ?? 0}
          lastLit={session.lastLit.value}
          isBrief
        />
      )}
      {report !== null && <ReportLink address={report} cid={place.cid} />}
    </div>
  )
}

function troubleSentence(trouble: Trouble): string {
  return trouble.kind === 'unfound' ? words('unfound', { reason: refusalOf(trouble.reason) }) : trouble.sentence
}

/** What of a page is shown before all of it is here: what plays while it comes, and what leads to such. */
function early(
  state: PageState,
  file: string | null,
  filename: string | null,
  unnamedPlays: boolean,
  origin: string | null,
): PageContent | null {
  if (state.kind !== 'loading' && state.kind !== 'waiting') return null
  const { content } = state
  switch (content?.kind) {
    case undefined:
      return null
    case 'file':
      return unnamedPlays || playedKind(filename) !== null ? content : null
    case 'directory': {
      const { files } = content
      const opened = file ?? indexOf(files)?.path
      // A site waits for each of its files by itself.
      if (origin !== null && opened !== undefined && isPage({ path: opened })) return content
      const plays = ({ path }: { path: string }) => playedKind(path) !== null
      // It comes before all others, and is shown when it is here.
      if (file !== null) return files.some(({ path }) => path === file) ? content : null
      return indexOf(files) === null && files.some(plays) ? content : null
    }
  }
}

/** Where the page may be shown as a site, `null` where it cannot. */
function originOf(cid: string, sitesBelow: string | null): string | null {
  try {
    return siteOrigin(parseCid(cid).key, sitesBelow, location.protocol)
  } catch {
    return null
  }
}

function fireOf(state: PageState): Fire {
  switch (state.kind) {
    case 'joining':
    case 'loading':
      return 'kindling'
    case 'held':
      return 'lit'
    case 'locked':
      return state.coming === null ? 'lit' : fireOf(state.coming)
    case 'waiting':
    case 'refused':
      return 'dark'
  }
}

function mineOf(state: PageState): Mine {
  switch (state.kind) {
    case 'held':
      return 'all'
    case 'locked':
      return state.coming === null ? 'all' : mineOf(state.coming)
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
