import '../style/page.css'
import { useEffect, useMemo } from 'preact/hooks'
import type { Connection as Channels } from '@watchfire/client/connection'
import { parseCid } from '@watchfire/pages/content'
import { DirectoryView, FileView, indexOf, mediaKind, prepareLayout, shownHeading } from '../render/index.ts'
import { siteOrigin } from '../sites/index.ts'
import { openFileStreams } from '../streaming/index.ts'
import { lazy } from '../ui/lazy.tsx'
import { keepAwakeFor } from '../ui/keep-awake.ts'
import { canAppend, type OpenPages } from '../ui/open-pages.ts'
import { noteServers } from '../ui/other-servers.ts'
import { replaceAddress } from '../ui/replace-address.ts'
import type { Route } from '../ui/route.ts'
import { pageAddress } from '@watchfire/pages/addresses'
import type { PageState, PageWarning } from '../ui/site.ts'
import { percentOf } from '../messages/index.ts'
import { page as text, refusalOf } from '../messages/page.ts'
import { plainName, shownName } from '../names/index.ts'
import { linkedName } from '@watchfire/pages/names'
import { showTabStatus } from '../ui/tab-status.ts'
import { tabTitle } from '../ui/title.ts'
import { useUnseen } from '../ui/use-unseen.ts'
import { availabilityOf } from './availability.ts'
import { DropOffer } from './DropOffer.tsx'
import { hadPage } from './had-pages.ts'
import { LoadingView } from './LoadingView.tsx'
import { LookElsewhere } from './LookElsewhere.tsx'
import { LostView } from './LostView.tsx'
import { StatusPanel } from './StatusPanel.tsx'
import { LockedView } from './LockedView.tsx'
import { WaitingHelp } from './WaitingHelp.tsx'
import { RefusedView } from './RefusedView.tsx'
import { ReportLink } from './ReportLink.tsx'

const LiveView = lazy(() => import('../live/index.ts').then(({ LiveView }) => LiveView))

const TITLE_STEP_PERCENT = 5

interface PageViewProps {
  place: Extract<Route, { kind: 'page' }>
  openPages: OpenPages
  /** See `Site.sitesBelow`. */
  sitesBelow: string | null
  channels: Promise<Channels>
  /** The address for reports; `null` when there is no address. */
  report: string | null
}

/** One page: its status, and its content below. */
export function PageView({ place, openPages, channels, sitesBelow, report }: PageViewProps) {
  const linked = linkedName(place.filename)
  const had = hadPage(place.cid)
  // Before the page is opened, and when only the fragment has changed.
  useMemo(() => noteServers(place.cid, location.hash), [place])
  const page = useMemo(() => {
    const opened = openPages.open(place.cid, linked, place.key)
    opened.isOwn ||= had?.isOwn === true
    return opened
  }, [openPages, place.cid, place.key])
  useEffect(() => () => openPages.leave(place.cid), [openPages, place.cid])
  useEffect(() => keepAwakeFor(openPages, channels), [openPages, channels])
  const { session } = page
  const state = session.state.value
  const counts = session.counts.value
  const key = session.key.value
  // Its files are known long before all of them are here. Each view shows as much of its file as has arrived.
  const content = 'content' in state ? (state.content ?? null) : null
  const liveTitle = content?.kind === 'live' ? plainName(content.feed.title) || null : null
  const filename = linked ?? page.filename ?? session.name.value ?? liveTitle
  const warning = session.warning.value
  const isRejected = warning?.kind === 'rejected'
  const availability = availabilityOf(state, { own: session.have.value, holders: counts?.holders ?? null, isRejected })
  const heading = content?.kind === 'file' && shownHeading.value !== null ? shownName(shownHeading.value) : null
  const unseen = useUnseen(content?.kind === 'live' ? content.feed.entries.length : 0)
  const title = tabTitle({
    availability,
    name: place.file === null ? (heading ?? filename) : shownName(place.file),
    percent: percentOfState(state),
    unseen,
  })
  useEffect(() => showTabStatus(title, availability), [title, availability])
  useEffect(() => {
    // The page was opened in this tab by a longer link; the address shows that one.
    if (key !== null && place.key === null) replaceAddress(pageAddress(place.cid, filename, key))
  }, [key, place.key])

  useEffect(() => prepareLayout(place.file ?? filename), [place.file ?? filename])
  const played = mediaKind(place.file ?? filename)
  useEffect(() => {
    const isWanted = played !== null || place.file !== null
    if (!isWanted || session.state.peek().kind === 'held') return
    const stop = new AbortController()
    // Starts the worker and loads the first blocks before the file is rendered.
    if (played !== null) void openFileStreams()
    // A player and a PDF read the parts that they show.
    const isWhole = played === null && !/\.pdf$/i.test(place.file ?? '')
    session.prefetch?.(place.file ?? '', isWhole, stop.signal)
    return () => stop.abort()
  }, [session, played?.mime, place.file])

  if (state.kind === 'refused') return <RefusedView cid={place.cid} reason={state.reason} />
  const origin = originOf(place.cid, sitesBelow)
  const coming = state.kind === 'locked' ? state.coming : state.kind === 'held' ? null : state
  const lost = coming?.kind === 'waiting' && page.isOwn ? had : null
  const progress = lost ? (
    <LostView had={lost} name={filename ?? text('it')} />
  ) : (
    coming !== null && (
      <LoadingView
        state={coming}
        filename={filename}
        holders={counts?.holders ?? 0}
        receivedBytes={session.traffic.value.receivedBytes}
        lastAvailable={session.lastAvailable.value}
        isBrief={content !== null || state.kind === 'locked'}
      />
    )
  )
  // Below a list of all files, which may be very long, nobody would find it.
  const isList = content?.kind === 'directory' && place.file === null && indexOf(content.files) === null
  return (
    <div class="page">
      <StatusPanel page={page} availability={availability} title={filename ?? title} address={location.href} />
      {warning !== null && (
        <p class="notice" role="status">
          {warningSentence(warning)}
        </p>
      )}
      {key !== null && <p class="small sealed">{text('private')}</p>}
      {state.kind === 'locked' && <LockedView cid={place.cid} filename={filename} reason={state.reason} />}
      {(content === null || isList) && progress}
      {content?.kind === 'file' && <FileView name={filename} file={content} />}
      {content?.kind === 'live' && <LiveView content={content} session={session} />}
      {content?.kind === 'directory' && (
        <DirectoryView
          files={content.files}
          links={content.links}
          isPartial={content.isPartial === true}
          open={place.file}
          name={filename}
          origin={origin}
        />
      )}
      {content !== null && !isList && progress}
      {coming?.kind === 'waiting' && lost === null && <WaitingHelp page={page} title={filename ?? text('aPage')} />}
      {coming?.kind === 'waiting' && <LookElsewhere cid={place.cid} />}
      {content !== null && !page.isOwn && (
        <p class="readers small">{text.withNodes('readers', { own: <a href="/">{text('makeOwn')}</a> })}</p>
      )}
      {!canAppend(session) && <DropOffer />}
      {report !== null && <ReportLink address={report} cid={place.cid} />}
    </div>
  )
}

function warningSentence(warning: PageWarning): string {
  return warning.kind === 'rejected' ? text('rejected', { reason: refusalOf(warning.reason) }) : warning.sentence
}

/** The origin on which the page may be shown as a site; `null` when there is none. */
function originOf(cid: string, sitesBelow: string | null): string | null {
  try {
    return siteOrigin(parseCid(cid).key, sitesBelow, location.protocol)
  } catch {
    return null
  }
}

/** For the title, in steps: each change of it reaches the browser's own process and window. */
function percentOfState(state: PageState): number | null {
  if (state.kind !== 'loading' || state.total === null) return null
  return Math.floor(percentOf(state.bytes, state.total) / TITLE_STEP_PERCENT) * TITLE_STEP_PERCENT
}
