import { useId } from 'preact/hooks'
import { page as text } from '../messages/page.ts'
import { hideAddress, isAddressHidden } from '../ui/hidden-address.ts'
import { Toggle } from './Toggle.tsx'

/** The switch for pages without direct connections. */
export function HideAddress() {
  const means = useId()
  return (
    <div class="explained">
      <Toggle label={text('hideAddress')} means={means} isOn={isAddressHidden.value} onChange={hideAddress} />
      <p class="small" id={means}>
        {text('hideAddressMeans')}
      </p>
    </div>
  )
}
