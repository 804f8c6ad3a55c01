import { useId } from 'preact/hooks'
import { canKeepAwake, isPhone, isKeepAwakeOn } from '../ui/keep-awake.ts'
import type { OpenPage } from '../ui/open-pages.ts'
import { isKept } from '../ui/open-pages.ts'
import { page as text } from '../messages/page.ts'
import { Toggle } from './Toggle.tsx'

/** The switches for sharing a page in the background and, on phones, for the screen. */
export function KeepSwitches({ page }: { page: OpenPage }) {
  const means = useId()
  return (
    <div class="keeping">
      <div class="explained">
        <Toggle label={text('keep')} means={means} isOn={isKept(page)} onChange={(isOn) => (page.keepChoice.value = isOn)} />
        <p class="small" id={means}>
          {text('keepMeans')}
        </p>
      </div>
      {canKeepAwake && <Toggle label={text('awake')} isOn={isKeepAwakeOn.value} onChange={(isOn) => (isKeepAwakeOn.value = isOn)} />}
      {isPhone && <p class="small">{text('asleep')}</p>}
    </div>
  )
}
