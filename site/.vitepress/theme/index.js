import { useData, useRoute, withBase } from 'vitepress'
import DefaultTheme from 'vitepress/theme'
import { nextTick, onMounted, watch } from 'vue'
import { draw } from './diagrams.js'
import './style.css'

export default {
  extends: DefaultTheme,
  setup() {
    const { isDark } = useData()
    const route = useRoute()
    const show = () => nextTick(() => draw(withBase('/assets/mermaid.min.js'), isDark.value))
    onMounted(show)
    watch([() => route.path, isDark], show, { flush: 'post' })
  },
}
