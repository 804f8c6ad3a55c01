import { useState } from 'preact/hooks'
import { page as text } from '../messages/page.ts'
import type { OpenPage } from '../ui/open-pages.ts'
import { canNotify, notifyWhenBack } from '../ui/return-notice.ts'

/** Says how a page comes back that nobody has, and offers a notification when it does. */
export function WaitingHelp({ page, title }: { page: OpenPage; title: string }) {
  const [answer, setAnswer] = useState<'on' | 'refused' | null>(null)
  const ask = async () => {
    const isOn = await notifyWhenBack(page.session, text('isBack', { name: title }), text('isBackWhy'))
    // A page that is waited for stays open while its reader looks elsewhere.
    if (isOn) page.keepChoice.value = true
    setAnswer(isOn ? 'on' : 'refused')
  }
  return (
    <div class="waiting-help">
      <p>{text('waitingHelp')}</p>
      {canNotify() && answer === null && (
        <button type="button" class="strong" onClick={() => void ask()}>
          {text('notify')}
        </button>
      )}
      <p role="status">{answer === 'on' ? text('notifyOn') : answer === 'refused' ? text('notifyRefused') : ''}</p>
    </div>
  )
}
