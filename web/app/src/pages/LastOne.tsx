import { sizeText } from '../messages/index.ts'
import { page as text } from '../messages/page.ts'
import { SaveAll } from '../save/SaveAll.tsx'
import { SaveLink } from '../save/SaveLink.tsx'
import type { OpenPage } from '../ui/open-pages.ts'
import { isLastReader } from '../ui/open-pages.ts'
import { COPIED_BYTES_MAX, type PageContent } from '../ui/site.ts'

interface LastOneProps {
  page: OpenPage
  title: string
  /** Whether the link was just copied. */
  isThanked: boolean
  onShare: () => void
}

/** Says before it happens that the end of this tab, or a reload of it, ends the page. */
export function LastOne({ page, title, isThanked, onShare }: LastOneProps) {
  const { state, survivesReload, counts } = page.session
  const content = state.value.kind === 'held' ? state.value.content : null
  if (isLastReader(page))
    return (
      <div class="last-one">
        <p role="status">{text('last')}</p>
        <div class="bar">
          {content !== null && <Save content={content} name={title} />}
          <button type="button" class="strong" onClick={onShare}>
            <span aria-live="polite">{text(isThanked ? 'copied' : 'share')}</span>
          </button>
        </div>
      </div>
    )
  if (survivesReload || (counts.value?.holders ?? 0) > 1) return null
  const bytes = content === null ? 0 : bytesOf(content)
  return (
    <p class="small" role="status">
      {bytes > COPIED_BYTES_MAX ? text('largeEnds', { size: sizeText(bytes) }) : text('reloadEnds')}
    </p>
  )
}

function Save({ content, name }: { content: PageContent; name: string }) {
  if (content.kind === 'file') return <SaveLink file={{ ...content, name }} />
  return <SaveAll name={name} files={content.files} isReady />
}

function bytesOf(content: PageContent): number {
  return content.kind === 'file' ? content.size : content.files.reduce((sum, { size }) => sum + size, 0)
}
