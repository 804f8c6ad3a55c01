import { useEffect, useId, useRef, useState } from 'preact/hooks'
import { stop } from '../ui/keep-awake.ts'
import { Flame } from '../ui/Flame.tsx'
import type { PageState } from '../ui/site.ts'
import type { OpenPage } from '../ui/open-pages.ts'
import { isWhole } from '../ui/open-pages.ts'
import { haveSentence } from '../ui/sentences.ts'
import type { Availability } from '../ui/tab-status.ts'
import { page as text } from '../messages/page.ts'
import { canShare, share } from './share.ts'
import { StatusDetails } from './StatusDetails.tsx'
import { ShareLink } from './ShareLink.tsx'

/** Width from which the details and the QR code leave room for the content. */
const ROOMY = '(min-width: 44rem)'

interface StatusPanelProps {
  page: OpenPage
  availability: Availability
  title: string
  /** The link to what this tab shows. */
  link: string
}

/** The status of a page in one line. The link and the details open on demand; the author has the link from the start. */
export function StatusPanel({ page, availability, title, link }: StatusPanelProps) {
  const { session, isOwn } = page
  const [isRoomy] = useState(() => matchMedia(ROOMY).matches)
  const [isOpen, setOpen] = useState(isOwn && isRoomy)
  const [isLinked, setLinked] = useState(isOwn)
  const [coded, setCoded] = useState(isOwn && isRoomy)
  const panel = useRef<HTMLElement>(null)
  const wasAsked = useRef(false)
  const details = useId()
  const held = isWhole(session)
  const part = arrivedPart(session.state.value)
  const showsLink = held && (isLinked || isOpen)
  useEffect(() => {
    if (!wasAsked.current || !showsLink) return
    wasAsked.current = false
    panel.current?.querySelector<HTMLInputElement>('input.link')?.focus()
  }, [showsLink])
  const onShare = () => {
    if (canShare(link)) return void share(link, title)
    wasAsked.current = true
    setLinked(true)
  }
  return (
    <section ref={panel} class={`status-panel${held ? ' held' : ''}${coded && showsLink ? ' coded' : ''}`} aria-label={text('who')}>
      <div class="line">
        <Flame availability={availability} size={24} isStill={isArriving(session.state.value)} />
        <p role="status">{headline(page)}</p>
        {held && (canShare(link) || !showsLink) && (
          <button type="button" class={isOwn ? 'strong' : ''} onClick={onShare}>
            {text('share')}
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
      {showsLink && <ShareLink link={link} coded={coded} onCoded={setCoded} />}
      <div class="opened" id={details}>
        {isOpen && <StatusDetails page={page} />}
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

function Chevron() {
  return (
    <svg class="chevron" width="18" height="18" viewBox="0 0 18 18" fill="none" stroke="currentColor" stroke-width="2" aria-hidden="true">
      <path d="m4 7 5 5 5-5" stroke-linecap="round" stroke-linejoin="round" />
    </svg>
  )
}
