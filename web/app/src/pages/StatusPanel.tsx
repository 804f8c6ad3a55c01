import { useEffect, useId, useRef, useState } from 'preact/hooks'
import { stop } from '../ui/keep-awake.ts'
import { Flame } from '../ui/Flame.tsx'
import type { PageState } from '../ui/site.ts'
import type { OpenPage } from '../ui/open-pages.ts'
import { isLastReader, isWhole } from '../ui/open-pages.ts'
import { linkToShare, updateNeighbours } from '../ui/other-servers.ts'
import { haveSentence } from '../ui/sentences.ts'
import type { Availability } from '../ui/tab-status.ts'
import { language } from '../messages/index.ts'
import { page as text } from '../messages/page.ts'
import { canShare, copyText, share } from './share.ts'
import { LastOne } from './LastOne.tsx'
import { StatusDetails } from './StatusDetails.tsx'
import { CopyLink, useThanks } from './CopyLink.tsx'

/** Pages of this tab whose links were copied or shared here. Their authors need no link in front of the content any more. */
const passedOn = new WeakSet<OpenPage>()

interface StatusPanelProps {
  page: OpenPage
  availability: Availability
  title: string
  /** The address of this tab. */
  address: string
}

/** The status of a page in one line. The link and the details open on demand; the author has the link until it is copied. */
export function StatusPanel({ page, availability, title, address }: StatusPanelProps) {
  const { session, isOwn } = page
  const [isOpen, setOpen] = useState(false)
  const [isLinked, setLinked] = useState(isOwn && !passedOn.has(page))
  const [isThanked, thank] = useThanks()
  const panel = useRef<HTMLElement>(null)
  /** The control that gets the focus once it is shown. */
  const wanted = useRef<string | null>(null)
  const details = useId()
  const held = isWhole(session)
  // Then the bar below has the buttons.
  const isAlone = isLastReader(page)
  const part = arrivedPart(session.state.value)
  const showsLink = held && (isLinked || isOpen)
  useEffect(() => {
    if (isOpen) void updateNeighbours()
  }, [isOpen])
  const { link, hosts } = linkToShare(address, session.cid)
  useEffect(() => {
    if (wanted.current !== null) panel.current?.querySelector<HTMLElement>(wanted.current)?.focus()
    wanted.current = null
  }, [showsLink])
  const onPassedOn = () => {
    passedOn.add(page)
    // Then the bar of the last reader stays as it is.
    if (isAlone) return
    if (showsLink && !isOpen) wanted.current = 'button'
    setLinked(false)
  }
  const onShare = async () => {
    if (canShare(link)) return (await share(link, title)) && onPassedOn()
    if (await copyText(link)) {
      thank()
      return onPassedOn()
    }
    wanted.current = 'input.link'
    setLinked(true)
  }
  const onCopied = () => {
    if (!isOpen) thank()
    onPassedOn()
  }
  return (
    <section ref={panel} class={held ? 'status-panel held' : 'status-panel'} aria-label={text('who')}>
      <div class="line">
        <Flame availability={isAlone ? 'alone' : availability} size={24} isStill={isArriving(session.state.value)} />
        <p role="status">{headline(page)}</p>
        {held && !isAlone && (canShare(link) || !showsLink) && (
          <button type="button" class={isOwn && isLinked ? 'strong' : ''} onClick={() => void onShare()}>
            <span aria-live="polite">{text(isThanked ? 'copied' : 'share')}</span>
          </button>
        )}
        <button
          type="button"
          class="quiet icon"
          aria-label={text('about')}
          title={text('about')}
          aria-expanded={isOpen}
          aria-controls={details}
          onClick={() => setOpen(!isOpen)}
        >
          <Chevron />
        </button>
      </div>
      <StopNotice isConnected={session.counts.value !== null} />
      <LastOne page={page} title={title} isThanked={isThanked} onShare={() => void onShare()} />
      {showsLink && (
        <div class="share">
          <CopyLink link={link} onCopied={onCopied} />
          {hosts.length > 0 && <p class="small">{text('alsoAt', { servers: listOf(hosts) })}</p>}
        </div>
      )}
      <div class="opened" id={details}>
        {isOpen && <StatusDetails page={page} link={held ? link : null} />}
      </div>
      {part !== null && <div class="arriving" style={{ '--part': part }} />}
    </section>
  )
}

/** Says that the browser stopped this tab in the background, whether its details are open or not. */
function StopNotice({ isConnected }: { isConnected: boolean }) {
  const stopped = stop.value.value
  if (stopped === 'none') return null
  return (
    <p class="small" role="status">
      {text(stopped === 'over' && isConnected ? 'hidden' : 'stopped')}
    </p>
  )
}

/** The part that is here of a page that is shown while it arrives. The view below it says the same in words. */
function arrivedPart(state: PageState): number | null {
  if (state.kind !== 'loading' || state.content === undefined || state.total === null) return null
  return Math.min(1, state.bytes / Math.max(1, state.total))
}

/** Whether a progress bar shows that blocks arrive. Before one percent it stands still, for seconds on a slow network. */
function isArriving(state: PageState): boolean {
  return state.kind === 'loading' && state.total !== null && state.bytes * 100 >= state.total
}

function headline({ session }: OpenPage): string {
  const counts = session.counts.value
  if (counts !== null) return haveSentence(counts, session.have.value)
  return text(session.warning.value?.kind === 'rejected' ? 'unconnected' : 'finding')
}

function listOf(hosts: readonly string[]): string {
  return new Intl.ListFormat(language.value.tag, { type: 'disjunction' }).format(hosts)
}

function Chevron() {
  return (
    <svg class="chevron" width="18" height="18" viewBox="0 0 18 18" fill="none" stroke="currentColor" stroke-width="2" aria-hidden="true">
      <path d="m4 7 5 5 5-5" stroke-linecap="round" stroke-linejoin="round" />
    </svg>
  )
}
